/* The data of a thread: its tables and columns, what they hold, and how they were read. A click on a column asks about it. */
import { signal, useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { address, get, patch, remove } from '../api/call';
import type { Column, Schema, SchemaTable, Table } from '../api/types';
import { SaveRows } from '../answer/result';
import { ownRows, type RowPage, servedRows, tableSource } from '../answer/rows';
import { DataTable } from '../answer/table';
import { Button } from '../shared/button';
import { Dialog } from '../shared/dialog';
import { Icon } from '../shared/icon';
import { guarded } from '../shared/say';
import { count, group, shownText, typeWord, type Value } from '../shared/text';
import { draft } from '../threads/composer-state';
import { go } from '../route';
import { describe } from './describe';
import { Reading } from './reading';
import { ReportView } from './report';
import { refreshSchema, schema } from './schema';
import { loadSets } from './sets';
import { readAgain } from './upload';

const detailed = ({ columns, report }: Table) => ({ ...(report && { report }), schema: Object.fromEntries(columns.map(c => [c.name!, c])) });

/* What both know of a column; what people wrote about it wins. */
const merged = (known: Record<string, Column>, more: Record<string, Column> | undefined) =>
  Object.fromEntries(Object.entries(known).map(([name, column]) => [name, { ...more?.[name], ...column }]));

export const panelOpen = signal(false);

const short = (v: Value) => (v === null || v === undefined ? '' : typeof v === 'number' ? group(String(+v.toPrecision(6))) : shownText(v).slice(0, 40));

function Top({ column, rows }: { column: Column; rows: number }) {
  const top = column.top ?? [], most = Math.max(1, ...top.map(t => t.count));
  return (
    <ul class="top">
      {top.slice(0, 6).map(t => (
        <li title={`${group(String(t.count))} of ${group(String(rows))}`}>
          <span dir="auto">{short(t.value) || 'empty'}</span>
          <meter min={0} max={most} value={t.count} aria-label={`${short(t.value)}: ${t.count}`} />
          <small>{group(String(t.count))}</small>
        </li>
      ))}
    </ul>
  );
}

function Histogram({ counts }: { counts: number[] }) {
  const most = Math.max(1, ...counts);
  return (
    <svg class="histogram" viewBox={`0 0 ${counts.length * 10} 40`} preserveAspectRatio="none" role="img" aria-label={`Histogram: ${counts.join(', ')}`}>
      {counts.map((n, i) => <rect x={i * 10 + 1} width={8} y={40 - (n / most) * 40} height={(n / most) * 40} />)}
    </svg>
  );
}

/* What a column is for can be corrected where its values leave a choice. */
const ROLES = ['measure', 'category', 'id', 'text'];

function ColumnView({ name, column, rows, note, setRole }: { name: string; column: Column; rows: number; note?: string; setRole: (role: string) => void }) {
  const open = useSignal(false), type = column.sql_type || column.type || '', nulls = rows && column.nulls ? column.nulls / rows : 0;
  const span = column.min !== undefined && column.min !== null ? `${short(column.min)} – ${short(column.max ?? null)}` : '';
  return (
    <li class="col">
      <button type="button" class="name" aria-expanded={open.value} onClick={() => { open.value = !open.value; }}>
        <span class="tag" title={type}>{typeWord(type) || 'text'}</span><b dir="auto" title={name}>{name}</b>
        <small>{nulls > 0 ? `${(nulls * 100).toFixed(nulls < 0.01 ? 1 : 0)} % empty` : column.distinct !== undefined ? `${group(String(column.distinct))} different` : ''}</small>
        <Icon name="chevron" />
      </button>
      {open.value && (
        <div class="detail">
          {column.description && <p dir="auto">{column.description}{column.unit ? ` (${column.unit})` : ''}</p>}
          <p class="note">{[type, ROLES.includes(column.role ?? '') ? '' : column.role, span, column.mean !== undefined && column.mean !== null ? `average ${short(column.mean)}` : ''].filter(Boolean).join(' · ')}</p>
          {ROLES.includes(column.role ?? '') && (
            <label class="role"><span>Used as</span>
              <select value={column.role} aria-label={`Role of ${name}`} onChange={event => setRole(event.currentTarget.value)}>{ROLES.map(r => <option value={r}>{r}</option>)}</select>
            </label>
          )}
          {note && <p class="note doubt">{note}</p>}
          {column.histogram?.counts?.length ? <Histogram counts={column.histogram.counts} /> : null}
          {!!column.top?.length && <Top column={column} rows={rows} />}
          <Button class="small" onClick={() => { draft.value = { text: name.includes(' ') ? `"${name}"` : name, focus: true, add: true }; }}>Ask about it</Button>
        </div>
      )}
    </li>
  );
}

/* All rows of a table, over the page. */
const shownTable = signal<{ data: string; table: string; page: RowPage } | null>(null);
const showRows = (data: string, table: string) => guarded(async () => { shownTable.value = { data, table, page: await tableSource(data, table)(0) }; });

export function TableDialog() {
  const now = shownTable.value;
  const rows = useMemo(() => now && servedRows(tableSource(now.data, now.table), now.page), [now]);
  if (!now || !rows) return null;
  const close = () => { shownTable.value = null; };
  return (
    <Dialog id="all-rows" title={now.table} onClose={close} full>
      <DataTable rows={rows} label={`Rows of ${now.table}`} tools={<SaveRows rows={rows} url={how => address('/data/{data_id}/tables/{table}/export', { data_id: now.data, table: now.table, ...how })} />} />
      <div class="actions"><Button onClick={close}>Close</Button></div>
    </Dialog>
  );
}

const MANY = 15; /* columns that are searched through */

function TableView({ data, table: known, open, own }: { data: string; table: SchemaTable; open: boolean; own: boolean }) {
  /* What was read of it in detail comes when it is opened: roles, histograms, the report. */
  const more = useSignal<Pick<SchemaTable, 'report' | 'schema'> | null>(null), wanted = useSignal(open), wantedColumn = useSignal('');
  const look = () => get('/data/{data_id}/tables/{table}', { data_id: data, table: known.table }).then(got => { more.value = detailed(got); }, () => undefined);
  useEffect(() => { if (wanted.value) void look(); }, [wanted.value, known]);
  const setRole = (column: string, role: string) => guarded(async () => {
    await patch('/datasets/{dataset_id}', { dataset_id: data }, { tables: { [known.table]: { columns: { [column]: { role } } } } });
    await refreshSchema(data);
  });
  const table = { ...known, ...more.value, schema: merged(known.schema, more.value?.schema) };
  const columns = Object.entries(table.schema), names = columns.map(([name]) => name), rows = table.row_count ?? 0;
  const sample = useMemo(() => ownRows(names, columns.map(([, c]) => c.sql_type ?? ''), (table.sample_rows ?? []).map(r => names.map(n => r[n] ?? null))), [table]);
  const notes = new Map((table.report?.columns ?? []).map(c => [c.name, c.note]));
  return (
    <details class="table" open={open} onToggle={event => { if (event.currentTarget.open) wanted.value = true; }}>
      <summary><b dir="auto">{table.table}</b> <small>{[table.row_count !== null && count(rows, 'row'), count(columns.length, 'column')].filter(Boolean).join(', ')}</small></summary>
      {table.description && <p class="note" dir="auto">{table.description}</p>}
      {table.report && <ReportView report={table.report} data={data} table={table.table} again={own ? () => readAgain(data) : undefined} />}
      {own && table.report && <Reading data={data} report={table.report} done={() => readAgain(data)} />}
      {columns.length > MANY && <p class="find-column"><input type="search" aria-label="Find a column" placeholder="Find a column" value={wantedColumn.value} onInput={event => { wantedColumn.value = event.currentTarget.value; }} /></p>}
      <ul class="cols">{columns.filter(([name]) => name.toLowerCase().includes(wantedColumn.value.trim().toLowerCase())).map(([name, column]) => <ColumnView key={name} name={name} column={column} rows={rows} note={notes.get(name)} setRole={role => void setRole(name, role)} />)}</ul>
      <p class="open-rows"><Button class="small" icon="table" onClick={() => showRows(data, table.table)}>All rows</Button></p>
      {!!table.sample_rows?.length && <div class="sample"><DataTable rows={sample} label={`First rows of ${table.table}`} plain /></div>}
    </details>
  );
}

async function removeData(data: Schema) {
  if (!window.confirm(`Delete ${data.name}? Threads about it can no longer use it.`)) return;
  await guarded(async () => {
    await remove('/data/{data_id}', { data_id: data.id });
    panelOpen.value = false;
    go({ view: 'start' });
    await loadSets();
  });
}

export function DataPanel({ data }: { data: Schema }) {
  const kind = useSignal('');
  useEffect(() => { get('/data/{data_id}', { data_id: data.id }).then(got => { kind.value = got.kind; }, () => undefined); }, [data.id]);
  return (
    <aside id="data" aria-label="Data">
      <div class="head"><h2 dir="auto">{data.name}</h2><Button class="quiet" icon="close" aria-label="Close the data" onClick={() => { panelOpen.value = false; }} /></div>
      <div class="body">
        {data.description && <p class="note" dir="auto">{data.description}</p>}
        <p class="acts">
          <Button id="describe" class="small" icon="pencil" onClick={() => describe(data.id)}>Describe</Button>
          {kind.value === 'upload' && <Button class="small" icon="trash" onClick={() => removeData(data)}>Delete</Button>}
        </p>
        {data.files.map((table, i) => <TableView key={`${data.id}/${table.table}`} data={data.id} table={table} open={i === 0} own={kind.value === 'upload'} />)}
        {!!data.relationships?.length && <><h3>How they join</h3><ul class="joins">{data.relationships.map(r => <li>{r.from} → {r.to}</li>)}</ul></>}
      </div>
    </aside>
  );
}

export function PanelIfOpen() {
  return panelOpen.value && schema.value ? <DataPanel data={schema.value} /> : null;
}
