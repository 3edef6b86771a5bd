/* From an answer's chart to what is drawn: fitted to the width, in the colours of the page, with what the person changed. */
import type { Chart, Result } from '../api/types';
import { isRate, type Value, writers } from '../shared/text';

export const KINDS = [{ mark: 'bar', name: 'Bars' }, { mark: 'line', name: 'Line' }, { mark: 'area', name: 'Area' }, { mark: 'point', name: 'Points' },
  { mark: 'arc', name: 'Pie' }] as const;
export type Kind = (typeof KINDS)[number]['mark'];

export interface Choice {
  kind: Kind; x: string; y: string; series: string | null; aggregate: string | null; sort: string | null; numeric: boolean[]; xType: string;
}
export type Record_ = Record<string, unknown>;

const MOST_BARS = 60;

/* Large integers are text in the result; a chart needs numbers. The exact text is kept for the tooltip. */
export function recordsOf(result: Result): Record_[] {
  const all = writers(result.columns, result.types, result.rows);
  return result.rows.map(row => {
    const record: Record_ = {};
    result.columns.forEach((name, i) => {
      const v = row[i];
      record[name] = v !== null && all[i].numeric ? Number(v) : typeof v === 'object' && v !== null ? JSON.stringify(v) : v;
      record[`\u200b${name}`] = v === null ? 'null' : all[i].write(v).slice(0, 200);
    });
    return record;
  });
}

/* What the specification draws, as the choices that the page offers. null: something that the page has no columns for. */
export function choiceOf(chart: Chart, result: Result): Choice | null {
  const mark = typeof chart.mark === 'string' ? chart.mark : chart.mark?.type, encoding = chart.encoding ?? {};
  const kind = mark === 'circle' || mark === 'square' || mark === 'tick' ? 'point' : mark;
  const field = (channel: string): string | null => encoding[channel]?.field ?? null;
  let x = kind === 'arc' ? field('color') : field('x'), y = kind === 'arc' ? field('theta') : field('y'), xType = encoding.x?.type ?? 'nominal';
  if (kind === 'bar' && encoding.y?.type !== 'quantitative' && encoding.x?.type === 'quantitative') [x, y, xType] = [y, x, encoding.y?.type ?? 'nominal'];
  if (!x || !y || !result.columns.includes(x) || !result.columns.includes(y) || !KINDS.some(k => k.mark === kind)) return null;
  const all = writers(result.columns, result.types, result.rows);
  if (!result.rows.length) return null;
  return { kind, x, y, xType: kind === 'arc' ? 'nominal' : xType, series: kind === 'arc' ? null : field('color'), aggregate: null, sort: null, numeric: all.map(w => w.numeric) };
}

const typeOf = (choice: Choice, chart: Chart, result: Result): string => {
  const asked = chart.encoding?.x?.field === choice.x ? chart.encoding.x.type : chart.encoding?.y?.field === choice.x ? chart.encoding.y.type : null;
  if (asked && !(choice.kind === 'bar' && asked === 'quantitative')) return asked === 'temporal' && choice.kind === 'bar' ? 'ordinal' : asked;
  const i = result.columns.indexOf(choice.x);
  if (/DATE|TIME/i.test(result.types?.[i] ?? '')) return choice.kind === 'bar' ? 'ordinal' : 'temporal';
  return choice.numeric[i] && (choice.kind === 'point' || choice.kind === 'line' || choice.kind === 'area') ? 'quantitative' : 'nominal';
};

/* Field names may hold dots and brackets, which Vega-Lite reads as paths. */
const path = (name: string) => name.replace(/[\\.[\]'"]/g, '\\$&');

export function specOf(chart: Chart, choice: Choice | null, changed: boolean, records: Record_[], result: Result, width: number): object {
  if (!choice) return { ...chart, data: { values: records }, width: 'container' };
  const { kind, x, y, series, aggregate } = choice, xType = typeOf(choice, chart, result), phone = width < 480;
  const names = [...new Set(records.map(r => String(r[x])))], longest = Math.max(...names.slice(0, MOST_BARS).map(n => n.length), 1);
  const titleOf = (channel: string, name: string) => (!changed && chart.encoding?.[channel]?.title) || name;
  const said = (r: Record_) => [x, ...(series ? [series] : []), y].map(n => r[`\u200b${n}`]).join(', '); /* what a screen reader says of a mark */
  const few: Record_[] = (kind === 'bar' && records.length > MOST_BARS && !aggregate ? records.slice(0, MOST_BARS) : records)
    .map(r => ({ ...r, '\u200b': said(r), ...(xType === 'temporal' && { [x]: timeOf(r[x]) }), ...(xType === 'ordinal' && { [x]: r[`\u200b${x}`] }) }));
  const value: any = { field: path(y), type: 'quantitative', title: titleOf('y', y), ...(aggregate ? (aggregate === 'count' ? { aggregate: 'count' } : { aggregate }) : {}),
    axis: { format: tickFormat(records, y), labelOverlap: true, tickCount: phone ? 4 : 6, labelExpr: "datum.value === 0 ? '0' : datum.label" } };
  const colour = series ? { field: path(series), type: 'nominal', title: series, legend: { orient: 'bottom', columns: phone ? 2 : 5, labelLimit: 120 } } : undefined;
  const tip = (name: string) => (aggregate && name === y ? { ...value, axis: undefined } : { field: `\u200b${path(name)}`, type: 'nominal', title: name });
  const tooltip = [x, ...(series ? [series] : []), y].map(tip), description = aggregate ? undefined : { field: '\u200b', type: 'nominal' };
  const base = { $schema: 'https://vega.github.io/schema/vega-lite/v6.json', data: { values: few }, background: 'transparent', width, autosize: { type: 'fit-x', contains: 'padding' } };
  if (kind === 'arc')
    return { ...base, height: 240, mark: { type: 'arc', innerRadius: 55, stroke: 'var', tooltip: true },
      encoding: { theta: { ...value, axis: undefined, stack: true }, color: { field: path(x), type: 'nominal', title: null, sort: null, legend: { orient: phone ? 'bottom' : 'right', columns: phone ? 2 : 1, labelLimit: 160 } }, tooltip, description } };
  const order = choice.sort === '-y' ? { op: aggregate ?? 'sum', field: path(y), order: 'descending' } : choice.sort === 'y' ? { op: aggregate ?? 'sum', field: path(y), order: 'ascending' }
    : choice.sort === 'x' ? 'ascending' : changed ? null : chart.encoding?.x?.sort ?? null;
  const lying = kind === 'bar' && longest * 7 + 10 > (width - 60) / Math.max(1, names.length);
  const across: any = { field: path(x), type: xType, title: titleOf('x', x), ...(xType === 'nominal' || xType === 'ordinal' ? { sort: order } : {}),
    ...(xType === 'temporal' ? { scale: { type: 'utc' } } : {}),
    axis: { labelAngle: 0, labelOverlap: true, labelSeparation: 8, ...(xType === 'temporal' ? dates(few.map(r => r[x] as number)) : {}), labelLimit: lying ? Math.min(180, width * 0.4) : 120, ...(xType === 'quantitative' ? { format: /year$/i.test(x) ? 'd' : tickFormat(records, x) } : {}) } };
  if (kind === 'bar') {
    const grouped = colour && new Set(records.map(r => r[series!])).size > 1 && !(chart.mark?.stack ?? false);
    const bars = { ...base, mark: { type: 'bar', tooltip: true, cornerRadiusEnd: 2 } };
    const shown = Math.min(names.length, MOST_BARS);
    if (lying) {
      const step = grouped ? Math.max(22, 9 * new Set(records.map(r => r[series!])).size + 6) : 24;
      return { ...bars, height: { step: step / (grouped ? new Set(records.map(r => r[series!])).size : 1) },
        encoding: { y: { ...across, title: null }, x: value, ...(grouped ? { yOffset: { field: path(series!) } } : {}), ...(colour ? { color: colour } : {}), tooltip, description } };
    }
    return { ...bars, height: 260, encoding: { x: { ...across, scale: { paddingInner: shown < 8 ? 0.4 : 0.2 } }, y: value, ...(grouped ? { xOffset: { field: path(series!) } } : {}), ...(colour ? { color: colour } : {}), tooltip, description } };
  }
  const dots = records.length <= 60;
  const mark = kind === 'line' ? { type: 'line', strokeWidth: 2, tooltip: true, ...(dots ? { point: { size: 28 } } : {}) }
    : kind === 'area' ? { type: 'area', line: true, opacity: 0.35, tooltip: true } : { type: 'point', filled: true, opacity: 0.65, size: 44, tooltip: true };
  const scale = kind === 'area' ? undefined : { zero: nearZero(records, y) };
  return { ...base, height: 260, mark, encoding: { x: kind === 'point' && xType === 'quantitative' ? { ...across, scale: { zero: nearZero(records, x) } } : across, y: { ...value, scale, ...(kind === 'area' && series ? { stack: null } : {}) }, ...(colour ? { color: colour } : {}), tooltip, description } };
}

/* A time without a zone is what it says, wherever the reader is: it is drawn as if it were UTC. */
function timeOf(v: unknown): number {
  const text = String(v).replace(' ', 'T');
  return Date.parse(/^\d{4}-\d\d-\d\dT[\d:.]+$/.test(text) ? `${text}Z` : text);
}

/* Few dates are the marks of their axis; those of months are written as months. */
function dates(times: number[]): object {
  const values = [...new Set(times)].filter(t => !Number.isNaN(t)), all = values.map(t => new Date(t));
  const format = all.every(d => d.getUTCDate() === 1 && d.getUTCHours() === 0) ? (all.every(d => d.getUTCMonth() === 0) ? '%Y' : '%b %Y') : all.every(d => d.getUTCHours() === 0) ? '%d %b' : undefined;
  /* By parts: Vega's interpreter reads a number or a text that stands for a time as a year. */
  const parts = all.map(d => ({ year: d.getUTCFullYear(), month: d.getUTCMonth() + 1, date: d.getUTCDate(), hours: d.getUTCHours(), minutes: d.getUTCMinutes(), seconds: d.getUTCSeconds(), utc: true }));
  return values.length <= 14 ? { values: parts, ...(format && { format }) } : {};
}

function extent(records: Record_[], name: string): [number, number] {
  let low = Infinity, high = -Infinity;
  for (const r of records) {
    const v = r[name];
    if (typeof v === 'number' && Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  }
  return [low, high];
}

function nearZero(records: Record_[], name: string): boolean {
  const [low, high] = extent(records, name);
  return low <= 0 || low < 0.6 * high;
}

function tickFormat(records: Record_[], name: string): string {
  const [low, high] = extent(records, name), most = Math.max(Math.abs(low), Math.abs(high));
  if (isRate(name, records.map(r => r[name] as Value).filter(v => v !== null))) return '.0~%';
  if (most >= 1e15 || (most > 0 && most < 1e-4)) return '.2~e';
  return most >= 10000 ? '~s' : ',~r';
}
