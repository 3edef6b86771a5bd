/* Writing numbers, sizes, times and values for people. */

export const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
export const seconds = (ms: number) => (ms < 1000 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`);
export const bytes = (n: number) =>
  n < 1000 ? `${n} bytes` : n < 1e6 ? `${Math.round(n / 1000)} kB` : n < 1e9 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e9).toFixed(2)} GB`;
export const group = (text: string) =>
  text.replace(/^(-?)(\d+)/, (_all, sign: string, digits: string) => sign + digits.replace(/\B(?=(\d{3})+$)/g, ','));
export const count = (n: number, one: string, many = `${one}s`) => `${group(String(n))} ${n === 1 ? one : many}`;
/* A text in pieces; every other one is a date, which is not broken at its hyphens. */
export const DATES = /(\b\d{4}-\d\d-\d\d\b)/;
export const plain = (text: string) => text.replaceAll('`', '');

/* "5 min", "3 h", "12 Nov": how long ago, as a list has room for. */
export function ago(iso: string | null | undefined, now = Date.now()): string {
  const then = iso ? Date.parse(iso) : NaN;
  if (Number.isNaN(then)) return '';
  const minutes = (now - then) / 60000;
  if (minutes < 1) return 'now';
  if (minutes < 60) return `${Math.floor(minutes)} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  return new Date(then).toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
}

export type Value = null | string | number | boolean | object;

/* Shares of one that are called rates; what is paid or beats at a rate is no share. */
export const isRate = (name: string, values: Value[]) => /(^|[_\s])(rate|share)$/i.test(name) && !/exchange|fx|currency|heart|hourly|daily/i.test(name)
  && values.every(v => typeof v === 'number' && v >= 0 && v <= 1) && values.some(v => (v as number) > 0 && (v as number) < 1);

/* How numbers of a column are written: thousands separated, with the decimals they need but at most four, two beside large ones; years and ids as they are. */
function numberWriter(name: string, values: Value[]): (v: Value) => string {
  const clean = (v: number) => String(+v.toPrecision(12)), bare = /(^|[_\s])(id|year|yr|zip|postcode|code)$/i.test(name);
  const decimals = (v: Value) => (typeof v !== 'number' || clean(v).includes('e') ? 0 : (clean(v).split('.')[1] || '').length);
  if (isRate(name, values)) return v => (typeof v === 'number' ? `${group(String(+(v * 100).toFixed(2)))} %` : String(v));
  const most = values.some(v => typeof v === 'number' && Math.abs(v) >= 100) ? 2 : 4, sign = /(^|[_\s])(percentage|percent|pct)$/i.test(name) ? ' %' : '';
  let digits = 0;
  for (const v of values) digits = Math.min(sign ? 2 : most, Math.max(digits, decimals(v)));
  return v => write(v) + sign;
  function write(v: Value): string {
    if (typeof v !== 'number') return bare ? String(v) : group(String(v));
    if (v !== 0 && (Math.abs(v) < 0.5 * 10 ** -digits || Math.abs(v) >= 1e21)) return String(+v.toPrecision(4));
    return bare ? v.toFixed(digits) : group(v.toFixed(digits));
  }
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/* Months, quarters and years that come as their first days are written as such. */
function timeWriter(name: string, values: Value[]): (v: Value) => string {
  const first = values.length > 0 && values.every(v => /^\d{4}-\d\d-01([T ]00:00(:00(\.0+)?)?)?$/.test(String(v)));
  const unit = first && /(^|[_\s])(month|quarter|year)$/i.exec(name)?.[2].toLowerCase();
  return v => {
    const [, year, month] = /^(\d{4})-(\d\d)-01/.exec(String(v)) ?? [];
    if (!unit || !year) return shownText(v);
    return unit === 'year' ? year : unit === 'quarter' ? `Q${Math.ceil(+month / 3)} ${year}` : `${MONTHS[+month - 1]} ${year}`;
  };
}

export function shownText(v: Value): string {
  if (typeof v === 'object') return JSON.stringify(v);
  const time = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(:\d\d(?:\.\d+)?)?)(Z|\+00(?::00)?)?$/.exec(String(v));
  return !time ? String(v) : /^00:00(:00(\.0+)?)?$/.test(time[2]) ? time[1] : `${time[1]} ${time[2]}`;
}

export interface Writer { name: string; type: string; numeric: boolean; write: (v: Value) => string }

const numericType = (type: string) => /INT|DOUBLE|FLOAT|DECIMAL|REAL|NUMERIC|NUMBER/i.test(type);

/* One per column. `rows` may be a sample. */
export function writers(columns: string[], types: string[] | undefined, rows: Value[][]): Writer[] {
  return columns.map((name, i) => {
    const values = rows.map(row => row?.[i]).filter(v => v !== null && v !== undefined), type = types?.[i] || '';
    const numeric = numericType(type) || (values.some(v => typeof v === 'number') && values.every(v => typeof v === 'number'));
    return { name, type, numeric, write: numeric ? numberWriter(name, values) : /DATE|TIME/i.test(type) ? timeWriter(name, values) : shownText };
  });
}

/* Rows as text for a clipboard or a file. */
export function flat(columns: string[], rows: Value[][], separator: string): string {
  return [columns as Value[], ...rows].map(row => row.map(v => {
    let text = v === null ? '' : typeof v === 'object' ? JSON.stringify(v) : String(v);
    /* A spreadsheet takes text that begins so for a formula, and a formula may start programs. */
    if (typeof v === 'string' && /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text))) text = `'${text}`;
    return /["\n\r\t]/.test(text) || text.includes(separator) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join(separator)).join('\n');
}

/* What a column's type is called in a header. */
export function typeWord(type: string): string {
  if (/DATE|TIME/i.test(type)) return /^DATE$/i.test(type) ? 'date' : 'time';
  if (/BOOL/i.test(type)) return 'yes/no';
  if (numericType(type)) return '123';
  return type ? 'text' : '';
}
