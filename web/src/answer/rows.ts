/* Where a table's rows come from: those of an answer, or pages that the server sends as they are needed. */
import { signal } from '@preact/signals';
import { get, type Params } from '../api/call';
import type { RowsPage } from '../api/types';
import { shownText, type Value } from '../shared/text';

export interface Sort { column: number; down: boolean }

export interface Rows {
  columns: string[];
  types?: string[];
  total: () => number;
  row: (i: number) => Value[] | undefined; /* undefined: not here yet */
  need: (from: number, to: number) => void;
  arrange: (sort: Sort | null, filter: string) => void;
  sample: () => Value[][];
  canFilter: boolean;
  query: () => Params; /* the arrangement, as the server takes it */
  version: { value: number }; /* a signal: counts whenever rows come or change places */
}

function compare(a: Value, b: Value): number {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1; /* nulls last, whichever way */
  if (b === null || b === undefined) return -1;
  const x = typeof a === 'object' ? NaN : Number(a), y = typeof b === 'object' ? NaN : Number(b);
  if (!Number.isNaN(x) && !Number.isNaN(y) && a !== '' && b !== '') {
    if (x !== y) return x - y;
    if (typeof a === 'string' && typeof b === 'string' && /^-?\d+$/.test(a) && /^-?\d+$/.test(b)) return BigInt(a) < BigInt(b) ? -1 : 1;
    return 0;
  }
  const s = shownText(a), t = shownText(b);
  return s < t ? -1 : s > t ? 1 : 0;
}

/* `key` tells what a value is sorted by. */
export function ownRows(columns: string[], types: string[] | undefined, rows: Value[][], key = (v: Value) => v): Rows {
  const version = signal(0);
  let order: number[] | null = null, query: Params = {};
  return {
    columns, types, version, canFilter: true,
    query: () => query,
    total: () => order?.length ?? rows.length,
    row: i => rows[order ? order[i] : i],
    need: () => undefined,
    sample: () => rows.slice(0, 500),
    arrange(sort, filter) {
      const wanted = filter.trim().toLowerCase();
      order = null;
      query = arranged(columns, sort, filter);
      if (wanted || sort) {
        order = [...rows.keys()];
        if (wanted) order = order.filter(i => rows[i].some(v => v !== null && shownText(v).toLowerCase().includes(wanted)));
        if (sort) {
          const { column, down } = sort;
          order.sort((i, j) => {
            const a = key(rows[i][column]), b = key(rows[j][column]);
            return a === null || b === null ? compare(a, b) : down ? compare(b, a) : compare(a, b);
          });
        }
      }
      version.value++;
    },
  };
}

export const PAGE = 200;
const KEPT_PAGES = 60;

export type RowPage = RowsPage;

/* Asks for a page of rows: of a run, or of a table. */
export type Source = (offset: number, more?: Params) => Promise<RowPage>;
export const runSource = (run: string): Source => (offset, more) => get('/runs/{run_id}/rows', { run_id: run, offset, limit: PAGE, ...more });
export const tableSource = (data: string, table: string): Source => (offset, more) =>
  get('/data/{data_id}/tables/{table}/rows', { data_id: data, table, offset, limit: PAGE, ...more });

const arranged = (columns: string[], sort: Sort | null, filter: string): Record<string, string> =>
  ({ ...(sort && { sort: (sort.down ? '-' : '') + columns[sort.column] }), ...(filter.trim() && { filter: holds(columns, filter.trim()) }) });

const text = (s: string) => `'${s.replaceAll("'", "''")}'`, name = (s: string) => `"${s.replaceAll('"', '""')}"`;
/* As a condition of SQL: some column holds the text. */
const holds = (columns: string[], wanted: string) =>
  columns.map(c => `contains(lower(CAST(${name(c)} AS VARCHAR)), lower(${text(wanted)}))`).join(' OR ');

/* All rows, in pages that the server sends. The first page is there already. */
export function servedRows(source: Source, { columns, types, rows: first, total }: RowPage): Rows {
  const version = signal(0);
  let pages = new Map<number, Value[][]>([[0, first]]), asked = new Set<number>(), query: Record<string, string> = {}, size = total ?? first.length, era = 0;
  async function bring(p: number) {
    const mine = era;
    asked.add(p);
    try {
      const answer = await source(p * PAGE, query);
      if (mine !== era) return;
      pages.set(p, answer.rows);
      size = answer.total ?? size;
      if (pages.size > KEPT_PAGES) pages.delete(pages.keys().next().value!);
      version.value++;
    } catch { /* the rows stay empty; scrolling asks again */ }
    asked.delete(p);
  }
  return {
    columns, types, version, canFilter: true,
    query: () => query,
    total: () => size,
    row: i => pages.get(Math.floor(i / PAGE))?.[i % PAGE],
    need(from, to) {
      for (let p = Math.floor(from / PAGE); p <= Math.floor(Math.max(from, to - 1) / PAGE); p++)
        if (!pages.has(p) && !asked.has(p) && p * PAGE < size) void bring(p);
    },
    sample: () => first,
    arrange(sort, filter) {
      query = arranged(columns, sort, filter);
      era++;
      pages = new Map();
      asked = new Set();
      if (!filter.trim()) size = total ?? first.length;
      void bring(0);
      version.value++;
    },
  };
}
