/* The data sets that there are, and which of them a new thread is about. */
import { computed, signal } from '@preact/signals';
import { get } from '../api/call';
import type { DataSet } from '../api/types';
import { count } from '../shared/text';

export const sets = signal<DataSet[] | null>(null);
export const chosen = signal<string[]>([]);

/* Names of uploads that are in no list: files without a table. */
export const unlisted = signal<Record<string, string>>({});

export const nameOf = (ids: string[]) => ids.map(id => sets.value?.find(s => s.id === id)?.name || unlisted.value[id] || id).join(', ');
/* Those that somebody wrote; the schema of other data has some (schema.ts). */
export const written = computed(() => sets.value?.find(s => s.id === chosen.value[0])?.prompts ?? []);

/* How much is in them, by id; asked for after they are shown. */
export const contents = signal<Record<string, string>>({});
async function loadContents(): Promise<void> {
  const { data } = await get('/data');
  contents.value = Object.fromEntries(data.filter(d => d.kind !== 'upload' && d.tables.length).map(d => {
    const rows = d.tables.reduce((sum, t) => sum + (t.rows ?? NaN), 0);
    return [d.id, [count(d.tables.length, 'table'), rows ? count(rows, 'row') : ''].filter(Boolean).join(', ')];
  }));
}

export async function loadSets(): Promise<void> {
  const { datasets } = await get('/datasets');
  const still = chosen.value.filter(id => datasets.some(s => s.id === id) || id in unlisted.value);
  sets.value = [...datasets.filter(s => s.kind === 'upload'), ...datasets.filter(s => s.kind !== 'upload')]; /* what people brought comes first */
  chosen.value = still.length || !datasets.length ? still : [sets.value[0].id];
  setTimeout(() => void loadContents().catch(() => undefined), 100);
}
