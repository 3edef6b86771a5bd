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

export const MOST_BARS = 60, MOST_SERIES = 8, MOST_SLICES = 7;

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

/* A chart of a result that came without one: its last measure over its first time or name. null: there is nothing to draw. */
export function chartFor(result: Pick<Result, 'columns' | 'types' | 'rows'>): Chart | null {
  const all = writers(result.columns, result.types, result.rows), isTime = (i: number) => /DATE|TIME/i.test(result.types?.[i] ?? ''), each = [...all.keys()];
  const measures = each.filter(i => all[i].numeric && !isTime(i) && !/(^|[_\s])(id|key|no|nr|code|zip)$/i.test(all[i].name));
  const y = measures[measures.length - 1];
  if (y === undefined || result.rows.length < 2) return null;
  const time = each.find(isTime), names = each.filter(i => !all[i].numeric && !isTime(i)), year = measures.find(i => i !== y && /(^|[_\s])(year|month|day|hour)$/i.test(all[i].name));
  const x = time ?? year ?? names[0] ?? measures.find(i => i !== y);
  if (x === undefined) return null;
  const values = (i: number) => new Set(result.rows.map(r => r[i])).size, field = (i: number, type: string) => ({ field: all[i].name, type });
  const series = values(x) < result.rows.length ? names.find(i => i !== x && values(i) > 1 && values(i) < result.rows.length / 2) : undefined;
  const [mark, type] = x === time ? ['line', 'temporal'] : x === year ? ['line', 'quantitative'] : names.includes(x) ? ['bar', 'nominal'] : ['point', 'quantitative'];
  return { mark, encoding: { x: field(x, type), y: field(y, 'quantitative'), ...(series !== undefined && { color: field(series, 'nominal') }) } } as Chart;
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
  const series = kind === 'arc' ? null : field('color'), at = [x, ...(series ? [series] : [])].map(name => result.columns.indexOf(name));
  /* Several rows for one place are put together. */
  const several = kind !== 'point' && kind !== 'arc' && new Set(result.rows.map(r => JSON.stringify(at.map(i => r[i])))).size < result.rows.length;
  const choice: Choice = { kind, x, y, xType: kind === 'arc' ? 'nominal' : xType, series, aggregate: null, sort: null, numeric: all.map(w => w.numeric) };
  return several ? { ...choice, aggregate: /^(avg|average|mean)|rate|share|price|percent/i.test(y) ? 'mean' : 'sum' } : choice;
}

const typeOf = (choice: Choice, chart: Chart, result: Result): string => {
  const asked = chart.encoding?.x?.field === choice.x ? chart.encoding.x.type : chart.encoding?.y?.field === choice.x ? chart.encoding.y.type : null;
  if (asked && !(choice.kind === 'bar' && asked === 'quantitative')) return asked === 'temporal' && choice.kind === 'bar' ? 'ordinal' : asked;
  const i = result.columns.indexOf(choice.x);
  if (/DATE|TIME/i.test(result.types?.[i] ?? '')) return choice.kind === 'bar' ? 'ordinal' : 'temporal';
  return choice.numeric[i] && (choice.kind === 'point' || choice.kind === 'line' || choice.kind === 'area') ? 'quantitative' : 'nominal';
};

/* As people write it: names of columns have underscores where words have blanks. */
export const human = (name: string) => name.replaceAll('_', ' ').trim() || name;

const AGGREGATES: Record<string, string> = { sum: 'Total', mean: 'Average', count: 'Number of rows', min: 'Lowest', max: 'Highest' };

/* What is measured, under what was chosen: "Average revenue". */
export const measured = ({ aggregate, y }: Choice) => (!aggregate ? human(y) : aggregate === 'count' ? AGGREGATES.count : `${AGGREGATES[aggregate]} ${human(y)}`);

/* Parts of a whole may be piled up; averages may not. */
const isAdditive = ({ aggregate, y }: Choice) => (aggregate ? ['sum', 'count'].includes(aggregate) : /^(total|sum|count|number|row_count)|_count$/i.test(y));

/* The series that are drawn: the largest ones, of more than can be told apart. */
export function seriesOf({ series, y }: Choice, records: Record_[]): string[] {
  if (!series) return [];
  const sums = new Map<string, number>();
  for (const r of records) sums.set(String(r[series]), (sums.get(String(r[series])) ?? 0) + Math.abs(Number(r[y]) || 0));
  const names = [...sums.keys()];
  if (names.length <= MOST_SERIES) return names;
  const largest = new Set(names.slice().sort((a, b) => sums.get(b)! - sums.get(a)!).slice(0, MOST_SERIES));
  return names.filter(n => largest.has(n));
}

/* Areas one upon the other. Vega-Lite's own way fills gaps by comparing dates that are never equal. */
function piles({ x, y, series }: Choice, drawn: string[], records: Record_[]): Record_[] {
  const at = new Map(records.map(r => [`${String(r[series!])}\n${String(r[x])}`, r])), high = new Map<unknown, number>(), places = [...new Set(records.map(r => r[x]))];
  return drawn.flatMap(name => places.map(place => {
    const record = at.get(`${name}\n${String(place)}`), low = high.get(place) ?? 0, top = low + (Number(record?.[y]) || 0);
    high.set(place, top);
    return { ...record, [x]: place, [series!]: name, '\u200blow': low, '\u200bhigh': top };
  }));
}

/* The slices of a pie: one for each name, small ones of many together. */
function slicesOf({ x, y, aggregate }: Choice, records: Record_[], write: (v: Value) => string): Record_[] {
  const found = new Map<string, number[]>(), put = aggregate ?? 'sum';
  for (const r of records) if (typeof r[y] === 'number') found.set(r[`\u200b${x}`] as string, [...(found.get(r[`\u200b${x}`] as string) ?? []), r[y] as number]);
  const sum = (all: number[]) => all.reduce((a, b) => a + b, 0);
  const ways: Record<string, (all: number[]) => number> = { sum, mean: all => sum(all) / all.length, count: all => all.length, min: all => Math.min(...all), max: all => Math.max(...all) };
  let slices = [...found].map(([name, all]) => ({ name, value: ways[put](all) }));
  if (slices.length > MOST_SLICES + 1 && (put === 'sum' || put === 'count')) {
    const order = slices.slice().sort((a, b) => b.value - a.value), rest = order.slice(MOST_SLICES);
    slices = [...order.slice(0, MOST_SLICES), { name: `${rest.length} others`, value: sum(rest.map(s => s.value)) }];
  }
  return slices.map(s => ({ ...s, shown: write(s.value), '\u200b': `${s.name}, ${write(s.value)}` }));
}

/* Field names may hold dots and brackets, which Vega-Lite reads as paths. */
const path = (name: string) => name.replace(/[\\.[\]'"]/g, '\\$&');

export function specOf(chart: Chart, choice: Choice | null, changed: boolean, records: Record_[], result: Result, width: number): object {
  if (!choice) return { ...chart, data: { values: records }, width: 'container' };
  const { kind, x, y, series, aggregate } = choice, xType = typeOf(choice, chart, result), phone = width < 480;
  const drawn = seriesOf(choice, records), seen = new Set(drawn);
  if (drawn.length === MOST_SERIES) records = records.filter(r => seen.has(String(r[series!])));
  const names = [...new Set(records.map(r => String(r[x])))], longest = Math.max(...names.slice(0, MOST_BARS).map(n => n.length), 1);
  const titleOf = (channel: string, name: string) => (!changed && chart.encoding?.[channel]?.title) || (name === y ? measured(choice) : human(name));
  const said = (r: Record_) => [x, ...(series ? [series] : []), y].map(n => r[`\u200b${n}`]).join(', '); /* what a screen reader says of a mark */
  const first = new Set(names.slice(0, MOST_BARS));
  const few: Record_[] = (kind === 'bar' && names.length > MOST_BARS ? records.filter(r => first.has(String(r[x]))) : records)
    .map(r => ({ ...r, '\u200b': said(r), ...(xType === 'temporal' && { [x]: timeOf(r[x]) }), ...(xType === 'ordinal' && { [x]: r[`\u200b${x}`] }) }));
  const value: any = { field: path(y), type: 'quantitative', title: titleOf('y', y), ...(aggregate ? (aggregate === 'count' ? { aggregate: 'count' } : { aggregate }) : {}),
    axis: { format: tickFormat(records, y), labelOverlap: true, tickCount: phone ? 4 : 6, labelExpr: "datum.value === 0 ? '0' : datum.label" } };
  const colour = series ? { field: path(series), type: 'nominal', title: null, sort: null, legend: { orient: 'bottom', columns: phone ? 2 : Math.max(2, Math.min(6, Math.floor(width / 130))), labelLimit: phone ? 130 : 180, symbolOpacity: 1 } } : undefined;
  const tip = (name: string) => (aggregate && name === y ? { ...value, axis: undefined } : { field: `\u200b${path(name)}`, type: 'nominal', title: human(name) });
  const tooltip = [x, ...(series ? [series] : []), y].map(tip), description = aggregate ? undefined : { field: '\u200b', type: 'nominal' };
  const base = { $schema: 'https://vega.github.io/schema/vega-lite/v6.json', data: { values: few }, background: 'transparent', width, autosize: { type: 'fit-x', contains: 'padding' } };
  if (kind === 'arc') {
    const slices = slicesOf(choice, records, writers(result.columns, result.types, result.rows)[result.columns.indexOf(y)].write);
    return { ...base, data: { values: slices }, height: 240, mark: { type: 'arc', innerRadius: 55, stroke: 'var', tooltip: true },
      encoding: { theta: { field: 'value', type: 'quantitative', stack: true }, order: { value: 0 },
        color: { field: 'name', type: 'nominal', title: null, sort: null, legend: { orient: phone ? 'bottom' : 'right', columns: phone ? 2 : 1, labelLimit: phone ? 130 : 220 } },
        tooltip: [{ field: 'name', type: 'nominal', title: human(x) }, { field: 'shown', type: 'nominal', title: measured(choice) }], description: { field: '\u200b', type: 'nominal' } } };
  }
  const order = choice.sort === '-y' ? { op: aggregate ?? 'sum', field: path(y), order: 'descending' } : choice.sort === 'y' ? { op: aggregate ?? 'sum', field: path(y), order: 'ascending' }
    : choice.sort === 'x' ? 'ascending' : changed ? null : chart.encoding?.x?.sort ?? null;
  const lying = kind === 'bar' && longest * 7 + 10 > (width - 60) / Math.max(1, names.length);
  const across: any = { field: path(x), type: xType, title: titleOf('x', x), ...(xType === 'nominal' || xType === 'ordinal' ? { sort: order } : {}),
    ...(xType === 'temporal' ? { scale: { type: 'utc' } } : {}),
    axis: { labelAngle: 0, labelOverlap: true, labelSeparation: 8, ...(xType === 'temporal' ? dates(few.map(r => r[x] as number)) : {}), labelLimit: lying ? Math.min(300, width * 0.42) : 120, ...(xType === 'quantitative' ? { format: /year$/i.test(x) ? 'd' : tickFormat(records, x) } : {}) } };
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
  const dots = records.length <= 60 * Math.max(1, drawn.length / 2), piled = kind === 'area' && !!series && !aggregate && isAdditive(choice);
  const mark = kind === 'line' ? { type: 'line', strokeWidth: 2, tooltip: true, ...(dots ? { point: { size: 28 } } : {}) }
    : kind === 'area' ? { type: 'area', line: true, opacity: piled ? 0.8 : 0.35, tooltip: true } : { type: 'point', filled: true, opacity: 0.65, size: 44, tooltip: true };
  if (piled)
    return { ...base, data: { values: piles(choice, drawn, few) }, height: 260, mark,
      encoding: { x: across, y: { ...value, field: '\u200bhigh', stack: null }, y2: { field: '\u200blow' }, color: colour, tooltip, description } };
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
