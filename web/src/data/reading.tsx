/* The decisions of a reading, each with a control beside it: the server reads the file again (PATCH /data/{id}), or says why it cannot. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { get, patch } from '../api/call';
import type { ReadOptions, Report } from '../api/types';

const DELIMITERS: [string, string][] = [[',', 'comma'], [';', 'semicolon'], ['tab', 'tab'], ['|', 'bar'], ['space', 'blank']];
const DECIMALS: [string, string][] = [['.', 'point'], [',', 'comma']];
const ORDERS: [string, string][] = [['dmy', 'day first'], ['mdy', 'month first'], ['ymd', 'year first']];
const TYPES: [string, string][] = [['text', 'all as text']];

export function Reading({ data, report, done }: { data: string; report: Report; done: () => Promise<unknown> }) {
  const said = useSignal<ReadOptions>({}), busy = useSignal(false), problem = useSignal('');
  useEffect(() => { get('/data/{data_id}', { data_id: data }).then(got => { said.value = got.options ?? {}; }, () => undefined); }, [data]);
  const change = async (name: keyof ReadOptions, value: string | number | null) => {
    busy.value = true;
    problem.value = '';
    try {
      said.value = (await patch('/data/{data_id}', { data_id: data }, { options: { [name]: value } })).options ?? {};
      await done();
    } catch (error) {
      problem.value = (error as Error).message;
    } finally {
      busy.value = false;
    }
  };
  const pick = (label: string, name: keyof ReadOptions, choices: [string, string][]) => (
    <label><span>{label}</span>
      <select name={name} disabled={busy.value} value={String(said.value[name] ?? '')} onChange={event => change(name, event.currentTarget.value || null)}>
        <option value="">as found</option>
        {choices.map(([value, text]) => <option value={value}>{text}</option>)}
      </select>
    </label>
  );
  const type = (label: string, name: keyof ReadOptions, found: string) => (
    <label><span>{label}</span>
      <input name={name} disabled={busy.value} placeholder={found} value={String(said.value[name] ?? '')}
        onKeyDown={event => { if (event.key === 'Enter') event.currentTarget.blur(); }}
        onBlur={event => { const now = event.currentTarget.value; if (now !== String(said.value[name] ?? '')) void change(name, now === '' ? null : name === 'header_line' && /^\d+$/.test(now) ? Number(now) : now); }} />
    </label>
  );
  const text = report.delimiter !== undefined;
  return (
    <details class="reading"><summary>Read it another way</summary>
      <div class="adjust" aria-busy={busy.value || undefined}>
        {text && pick('Separated by', 'delimiter', DELIMITERS)}
        {text && pick('Decimal sign', 'decimal', DECIMALS)}
        {type('Header line (0: none)', 'header_line', String(report.header_line ?? ''))}
        {pick('Dates', 'date_order', ORDERS)}
        {pick('Values', 'types', TYPES)}
        {(report.sheets ?? 0) > 1 && type('Sheet', 'sheet', report.sheet ?? '')}
      </div>
      {problem.value && <p class="problem" role="alert">{problem.value}</p>}
    </details>
  );
}
