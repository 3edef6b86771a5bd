/* The schema of the data set that is in use: for completion and for the panel of the data. */
import { computed, effect, signal } from '@preact/signals';
import { get } from '../api/call';
import type { Schema } from '../api/types';
import { thread } from '../threads/state';
import { chosen, written } from './sets';

export const dataId = computed(() => (thread.value ? thread.value.data : chosen.value[0] ?? null));
export const schema = signal<Schema | null>(null);
const known = new Map<string, Schema>();

export async function loadSchema(id: string, anew = false): Promise<Schema> {
  if (anew || !known.has(id)) known.set(id, await get('/datasets/{dataset_id}/schema', { dataset_id: id }));
  return known.get(id)!;
}

/* After what is known of it has changed. */
export async function refreshSchema(id: string): Promise<void> {
  const fresh = await loadSchema(id, true);
  if (schema.peek()?.id === id) schema.value = fresh;
}

export function watchSchema() {
  effect(() => {
    const id = dataId.value;
    schema.value = id ? known.get(id) ?? null : null;
    if (!id || known.has(id)) return;
    const load = () => loadSchema(id).then(got => { if (dataId.peek() === id) schema.value = got; }, () => undefined);
    setTimeout(load, written.peek().length ? 200 : 0); /* prompts are waited for; the rest is not */
  });
}

/* Questions to try about what is chosen. */
export const prompts = computed(() => (written.value.length ? written.value : schema.value?.id === chosen.value[0] ? schema.value?.prompts ?? [] : []).slice(0, 4));

export const columnsByTable = computed(() =>
  Object.fromEntries((schema.value?.files ?? []).map(file => [file.table, Object.keys(file.schema)])));
