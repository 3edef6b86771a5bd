/*
 * A table of any number of rows. A small one is laid out by its contents; of a large one only the rows in sight are in the document, all of
 * one height, in columns of fixed width. Browsers limit the height of an element, so past that the scroll position is scaled.
 */
import { useComputed, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { Button, CopyButton } from '../shared/button';
import { Icon } from '../shared/icon';
import { count, flat, group, typeWord, type Value, type Writer, writers } from '../shared/text';
import type { Rows, Sort } from './rows';

const ROW = 34, SMALL = 120, MAX_HEIGHT = 15_000_000, VIEW = 13; /* px, rows, px, rows */
const CELL = 400; /* characters that a cell shows; the whole text comes by its tooltip, files and copies */

type Draw = (text: string) => ComponentChildren;

function Cell({ v, c, one, draw }: { v: Value | undefined; c: Writer; one: boolean; draw?: Draw }) {
  if (v === undefined) return <td class="coming" />;
  if (v === null) return <td class={c.numeric ? 'number none' : 'none'}>null</td>;
  if (draw) return <td class={c.numeric ? 'number' : undefined} dir="auto"><div>{draw(String(v))}</div></td>;
  const text = c.write(v), raw = typeof v === 'object' ? text : String(v);
  const title = raw !== text || text.length > 60 ? raw.slice(0, 4000) : undefined;
  const shown = text.length > CELL ? `${text.slice(0, CELL)}…` : text;
  if (c.numeric) return <td class="number" title={title}>{shown}</td>;
  return <td class={one ? undefined : text.length > 40 ? 'long' : text.length <= 20 ? 'short' : undefined} title={title} dir="auto"><div>{shown}</div></td>;
}

function widths(columns: Writer[], rows: Value[][]): number[] {
  return columns.map((c, i) => {
    let most = c.name.length + 5;
    for (const row of rows.slice(0, 200)) if (row?.[i] !== null && row?.[i] !== undefined) most = Math.max(most, c.write(row[i]).length);
    return Math.round(Math.min(340, Math.max(76, most * 8.2 + 32)));
  });
}

interface Props { rows: Rows; truncated?: boolean; tools?: ComponentChildren; label?: string; plain?: boolean; draw?: Draw }

export function DataTable({ rows, truncated, tools, label = 'Result', plain = false, draw }: Props) {
  const scroll = useRef<HTMLDivElement>(null), sort = useSignal<Sort | null>(null), filter = useSignal(''), filtering = useSignal(false);
  const first = useSignal(0), top = useSignal(0), visible = useSignal(VIEW);
  const large = useMemo(() => rows.total() > SMALL, [rows]);
  const columns = useMemo(() => writers(rows.columns, rows.types, rows.sample()), [rows]);
  const wide = useMemo(() => (large ? widths(columns, rows.sample()) : []), [rows]);
  const total = useComputed(() => { void rows.version.value; return rows.total(); }).value;
  const height = Math.min(MAX_HEIGHT, total * ROW), scaled = total * ROW > MAX_HEIGHT;

  function place() {
    const box = scroll.current;
    if (!box || !large) return;
    const seen = Math.ceil(box.clientHeight / ROW), room = Math.max(1, height + ROW - box.clientHeight);
    const at = scaled ? Math.round(box.scrollTop / room * Math.max(0, total - seen + 2)) : Math.floor(box.scrollTop / ROW);
    const from = Math.max(0, Math.min(at - (scaled ? 0 : 4), total - 1));
    visible.value = seen + 8;
    first.value = from;
    top.value = scaled ? Math.min(box.scrollTop, Math.max(0, height - Math.min(total - from, seen + 8) * ROW)) : from * ROW;
    rows.need(from, Math.min(total, from + seen + 8));
  }
  useLayoutEffect(place, [rows, total]);
  useEffect(() => {
    if (!large) return undefined;
    const seen = new ResizeObserver(place);
    seen.observe(scroll.current!);
    return () => seen.disconnect();
  }, [rows]);

  const arrange = () => {
    rows.arrange(sort.value, filter.value);
    if (scroll.current) scroll.current.scrollTop = 0;
    place();
  };
  const sortBy = (column: number) => {
    const now = sort.value;
    sort.value = now?.column !== column ? { column, down: false } : now.down ? null : { column, down: true };
    arrange();
  };

  void rows.version.value;
  const from = large ? first.value : 0, to = large ? Math.min(total, from + visible.value) : total;
  const shown: { i: number; row: Value[] | undefined }[] = [];
  for (let i = from; i < to; i++) shown.push({ i, row: rows.row(i) });
  const all = () => {
    const got: Value[][] = [];
    for (let i = 0; i < total; i++) { const row = rows.row(i); if (row) got.push(row); }
    return got;
  };
  const whole = useMemo(() => rows.total(), [rows]);

  const onKeyDown = (event: KeyboardEvent) => {
    const box = scroll.current!;
    if (event.key === 'Home') box.scrollTop = 0;
    else if (event.key === 'End') box.scrollTop = box.scrollHeight;
    else return;
    event.preventDefault();
  };

  return (
    <div class="rows">
      {filtering.value && (
        <div class="filter">
          <Icon name="search" />
          <input type="search" aria-label="Filter rows" placeholder="Show rows that contain…" value={filter.value}
            ref={input => { if (input && document.activeElement !== input && !filter.value) input.focus(); }}
            onInput={event => { filter.value = event.currentTarget.value; arrange(); }}
            onKeyDown={event => { if (event.key === 'Escape') { event.stopPropagation(); filter.value = ''; filtering.value = false; arrange(); } }} />
        </div>
      )}
      <div class={`scroll ${large ? 'large' : ''}`} tabIndex={0} role="region" aria-label={label} ref={scroll} onScroll={large ? place : undefined} onKeyDown={onKeyDown}>
        <div class="sizer" style={large ? { height: `${height + ROW}px`, minWidth: `${wide.reduce((a, b) => a + b, 0)}px` } : undefined}>
          <table class={large ? 'fixed' : undefined} style={large ? { top: `${top.value}px` } : undefined}
            aria-rowcount={large ? total + 1 : undefined}>
            {large && <colgroup>{wide.map(w => <col style={{ width: `${w}px` }} />)}</colgroup>}
            <thead>
              <tr>
                {columns.map((c, i) => {
                  const on = sort.value?.column === i ? (sort.value.down ? 'descending' : 'ascending') : undefined;
                  return (
                    <th scope="col" class={c.numeric ? 'number' : undefined} aria-sort={on} title={c.type ? `${c.name} (${c.type})` : c.name}>
                      <div>
                        <button type="button" onClick={() => sortBy(i)} dir="auto">{c.name}</button>
                        <small aria-hidden="true">{on ? (on === 'ascending' ? '↑' : '↓') : typeWord(c.type)}</small>
                      </div>
                    </th>
                  );
                })}
              </tr>
            </thead>
            <tbody>
              {shown.map(({ i, row }) => (
                <tr key={i} aria-rowindex={large ? i + 2 : undefined}>{columns.map((c, j) => <Cell v={row?.[j]} c={c} one={large} draw={draw} />)}</tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
      {!plain && (
        <div class="bar">
          <span role="status">
            {total !== whole ? `${group(String(total))} of ${count(whole, 'row')}` : count(total, 'row')}{truncated ? ', and more that were left out' : ''}
          </span>
          {rows.canFilter && whole > 5 && (
            <Button class="quiet" icon="search" aria-pressed={filtering.value} onClick={() => { filtering.value = !filtering.value; if (!filtering.value && filter.value) { filter.value = ''; arrange(); } }}>Filter</Button>
          )}
          <CopyButton text={() => flat(rows.columns, all(), '\t')} done={() => (all().length < total ? `Copied ${count(all().length, 'row')}` : 'Copied')} />
          {tools}
        </div>
      )}
    </div>
  );
}
