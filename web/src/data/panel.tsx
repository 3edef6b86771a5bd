/* The data of a thread: its tables and columns, what they hold, and how they were read. A click on a column asks about it. */
import { signal, useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { Column, Report, Schema, Table } from '../api/types';
import { ownRows } from '../answer/rows';
import { DataTable } from '../answer/table';
import { Button } from '../shared/button';
import { Icon } from '../shared/icon';
import { count, group, shownText, typeWord, type Value } from '../shared/text';
import { draft } from '../threads/composer-state';
import { describe } from './describe';
import { schema } from './schema';

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

function ColumnView({ name, column, rows, note }: { name: string; column: Column; rows: number; note?: string }) {
  const open = useSignal(false), type = column.sql_type || column.type || '', nulls = rows && column.nulls ? column.nulls / rows : 0;
  const span = column.min !== undefined && column.min !== null ? `${short(column.min)} – ${short(column.max ?? null)}` : '';
  return (
    <li class="col">
      <button type="button" class="name" aria-expanded={open.value} onClick={() => { open.value = !open.value; }}>
        <span class="tag" title={type}>{typeWord(type) || 'text'}</span><b dir="auto">{name}</b>
        <small>{nulls > 0 ? `${(nulls * 100).toFixed(nulls < 0.01 ? 1 : 0)} % empty` : column.distinct !== undefined ? `${group(String(column.distinct))} different` : ''}</small>
        <Icon name="chevron" />
      </button>
      {open.value && (
        <div class="detail">
          {column.description && <p dir="auto">{column.description}{column.unit ? ` (${column.unit})` : ''}</p>}
          <p class="note">{[type, column.role, span, column.mean !== undefined && column.mean !== null ? `average ${short(column.mean)}` : ''].filter(Boolean).join(' · ')}</p>
          {note && <p class="note doubt">{note}</p>}
          {column.histogram?.counts?.length ? <Histogram counts={column.histogram.counts} /> : null}
          {!!column.top?.length && <Top column={column} rows={rows} />}
          <Button class="small" onClick={() => { draft.value = { text: name.includes(' ') ? `"${name}"` : name, focus: true, add: true }; }}>Ask about it</Button>
        </div>
      )}
    </li>
  );
}

export function ReportView({ report }: { report: Report }) {
  const facts = [report.rows !== undefined && count(report.rows, 'row'), report.refused ? `${count(report.refused, 'line')} refused` : '', report.skipped ? `${count(report.skipped, 'line')} skipped` : '',
    report.encoding && `encoding ${report.encoding}`, report.delimiter && `separated by ${report.delimiter === '\t' ? 'tabs' : report.delimiter}`,
    report.header_line !== undefined && `names in line ${report.header_line}`, report.decimal && `decimal ${report.decimal}`].filter(Boolean);
  return (
    <div class="report">
      {!!facts.length && <p class="note">Read: {facts.join(', ')}.</p>}
      {report.notes?.map(n => <p class="note doubt">{n}</p>)}
      {!!report.refused_rows?.length && (
        <details><summary>{count(report.refused ?? report.refused_rows.length, 'line')} that could not be read</summary>
          <ul>{report.refused_rows.map(r => <li><b>{r.line}</b> {r.reason}<pre>{r.text}</pre></li>)}</ul>
        </details>
      )}
    </div>
  );
}

function TableView({ table, open }: { table: Table; open: boolean }) {
  const columns = Object.entries(table.schema), names = columns.map(([name]) => name), rows = table.row_count ?? 0;
  const sample = useMemo(() => ownRows(names, columns.map(([, c]) => c.sql_type ?? ''), (table.sample_rows ?? []).map(r => names.map(n => r[n] ?? null))), [table]);
  const notes = new Map((table.report?.columns ?? []).map(c => [c.name, c.note]));
  return (
    <details class="table" open={open}>
      <summary><b dir="auto">{table.table}</b> <small>{table.row_count !== undefined ? count(rows, 'row') : ''}, {count(columns.length, 'column')}</small></summary>
      {table.description && <p class="note" dir="auto">{table.description}</p>}
      {table.report && <ReportView report={table.report} />}
      <ul class="cols">{columns.map(([name, column]) => <ColumnView name={name} column={column} rows={rows} note={notes.get(name)} />)}</ul>
      {!!table.sample_rows?.length && <div class="sample"><DataTable rows={sample} label={`First rows of ${table.table}`} plain /></div>}
    </details>
  );
}

export function DataPanel({ data }: { data: Schema }) {
  return (
    <aside id="data" aria-label="Data">
      <div class="head"><h2 dir="auto">{data.name}</h2><Button class="quiet" icon="close" aria-label="Close the data" onClick={() => { panelOpen.value = false; }} /></div>
      <div class="body">
        {data.description && <p class="note" dir="auto">{data.description}</p>}
        <p><Button id="describe" class="small" icon="pencil" onClick={() => describe(data.id)}>Describe</Button></p>
        {data.files.map((table, i) => <TableView key={`${data.id}/${table.table}`} table={table} open={i === 0} />)}
        {!!data.relationships?.length && <><h3>How they join</h3><ul class="joins">{data.relationships.map(r => <li>{r.from} → {r.to}</li>)}</ul></>}
      </div>
    </aside>
  );
}

export function PanelIfOpen() {
  return panelOpen.value && schema.value ? <DataPanel data={schema.value} /> : null;
}
