/*
 * Describing data: a dialog for what people know about a data set and no column name says. It shows what is known, sends what was changed
 * (PATCH /datasets/{id}), and stays open with the reason when the server refuses.
 */
import { signal, useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { patch } from '../api/call';
import type { Column, Schema } from '../api/types';
import { Button } from '../shared/button';
import { Dialog } from '../shared/dialog';
import { guarded } from '../shared/say';
import { loadSchema } from './schema';
import { loadSets } from './sets';

export const describing = signal<Schema | null>(null);
export const describe = (id: string) => guarded(async () => { describing.value = await loadSchema(id, true); });

const lines = (text: string) => text.split('\n').map(line => line.trim()).filter(Boolean);
type Texts = Record<string, string | undefined | null>;

/* Only what is different now: null where it was emptied. */
function changed(before: Texts, now: Texts): Record<string, string | null> | undefined {
  const found: Record<string, string | null> = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(now)]))
    if ((before[key] || '') !== (now[key] || '')) found[key] = now[key] || null;
  return Object.keys(found).length ? found : undefined;
}

const inputs = (part: Element) => [...part.querySelectorAll('input')].map(input => input.value.trim());

function readWords(schema: Schema, form: HTMLFormElement): Record<string, unknown> {
  const value = (name: string) => form.querySelector<HTMLTextAreaElement>(name)!.value;
  const found: Record<string, unknown> = changed({ description: schema.description }, { description: value('.description').trim() }) || {};
  const notes = lines(value('.notes'));
  if (notes.join('\n') !== (schema.words.notes || []).join('\n')) found.notes = notes.length ? notes : null;
  const metrics: Texts = {};
  for (const row of form.querySelectorAll('.metric')) {
    const [name, meaning] = inputs(row);
    if (name) metrics[name] = meaning;
  }
  found.metrics = changed(schema.metrics, metrics);
  const tables: Record<string, unknown> = {};
  schema.files.forEach((file, i) => {
    const part = form.querySelectorAll('.table')[i], columns: Record<string, unknown> = {};
    const about = part.querySelector<HTMLInputElement>('.about')!.value.trim();
    const table: Record<string, unknown> = changed({ description: file.description }, { description: about }) || {};
    for (const row of part.querySelectorAll<HTMLElement>('.column')) {
      const known = file.schema[row.dataset.column!], [description, unit] = inputs(row);
      const difference = changed({ description: known.description, unit: known.unit }, { description, unit });
      if (difference) columns[row.dataset.column!] = difference;
    }
    if (Object.keys(columns).length) table.columns = columns;
    if (Object.keys(table).length) tables[file.table] = table;
  });
  if (Object.keys(tables).length) found.tables = tables;
  return JSON.parse(JSON.stringify(found));
}

function ColumnRow({ name, about }: { name: string; about: Column }) {
  return (
    <div class="column" data-column={name}>
      <b>{name}<small> {about.sql_type || about.type || ''}</small></b>
      <input defaultValue={about.description || ''} maxLength={2000} placeholder="What it is" aria-label={`Description of ${name}`} />
      <input defaultValue={about.unit || ''} maxLength={40} placeholder="Unit" aria-label={`Unit of ${name}`} />
    </div>
  );
}

export function Describe({ schema }: { schema: Schema }) {
  const form = useRef<HTMLFormElement>(null), problem = useSignal<string | null>(null);
  const metrics = useSignal(Object.entries(schema.metrics).map(([name, meaning], key) => ({ key, name, meaning })));
  const close = () => { describing.value = null; };
  async function save(event: Event) {
    event.preventDefault();
    try {
      const words = readWords(schema, form.current!);
      if (Object.keys(words).length) await patch('/datasets/{dataset_id}', { dataset_id: schema.id }, words);
      await loadSchema(schema.id, true);
      close();
      await loadSets();
    } catch (error) {
      problem.value = (error as Error).message;
    }
  }
  return (
    <Dialog id="words" title={`About ${schema.name}`} onClose={close} wide>
      <form ref={form} onSubmit={save}>
        <p class="lead">What you write here helps to read your questions. Only you see it.</p>
        <label><span>What the data is</span><textarea class="description" rows={2} maxLength={4000} defaultValue={schema.description || ''} /></label>
        <label><span>Notes, one a line</span><textarea class="notes" rows={2} placeholder="Test orders have customer 0." defaultValue={(schema.words.notes || []).join('\n')} /></label>
        <fieldset>
          <legend>Metrics</legend>
          {metrics.value.map(m => (
            <div class="metric" key={m.key}>
              <input defaultValue={m.name} maxLength={80} placeholder="revenue" aria-label="Name of the metric" />
              <input defaultValue={m.meaning} maxLength={2000} placeholder="sum of amount where status is completed" aria-label="What it means" />
              <Button class="quiet" onClick={() => { metrics.value = metrics.value.filter(x => x !== m); }}>Remove</Button>
            </div>
          ))}
          <Button class="quiet" icon="plus" onClick={() => { metrics.value = [...metrics.value, { key: Date.now(), name: '', meaning: '' }]; }}>Add a metric</Button>
        </fieldset>
        {schema.files.map(file => (
          <details class="table" open={schema.files.length === 1}>
            <summary>{file.table}</summary>
            <label><span>What a row is</span><input class="about" defaultValue={file.description || ''} maxLength={2000} /></label>
            {Object.entries(file.schema).map(([name, about]) => <ColumnRow name={name} about={about} />)}
          </details>
        ))}
        {problem.value && <p class="problem" role="alert">{problem.value}</p>}
        <div class="actions"><Button onClick={close}>Cancel</Button><button type="submit" class="main">Save</button></div>
      </form>
    </Dialog>
  );
}
