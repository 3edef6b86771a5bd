import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { address, call, key, type Params } from '../api/call';
import type { Result } from '../api/types';
import { Menu } from '../shared/menu';
import { guarded } from '../shared/say';
import { save } from '../shared/save';
import { flat, writers } from '../shared/text';
import { ownRows, type RowPage, type Rows, runSource, servedRows } from './rows';
import { DataTable } from './table';

const FORMATS = [['csv', 'CSV'], ['xlsx', 'Excel'], ['parquet', 'Parquet'], ['json', 'JSON']] as const;

/* All rows that are shown, in their order, as the server writes them. A browser streams a download itself; one with a key is fetched first. */
export async function exported(url: string, name: string): Promise<void> {
  if (key()) {
    save(await (await call(url)).blob(), name);
    return;
  }
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
}

export const SaveRows = ({ rows, url }: { rows: Rows; url: (how: Params) => string }) => (
  <Menu label="Save the rows" icon="down" items={FORMATS.map(([format, label]) => ({ label, act: () => guarded(() => exported(url({ ...rows.query(), format }), `result.${format}`)) }))} />
);

/* One number is shown as one number. Of a result that was cut the server has the rest. */
export function ResultView({ result, run }: { result: Result; run?: string }) {
  const whole = useSignal<RowPage | null>(null);
  useEffect(() => {
    whole.value = null;
    if (result.truncated && run) runSource(run)(0).then(page => { if ((page.total ?? 0) > result.rows.length) whole.value = page; }, () => undefined);
  }, [result, run]);
  const rows = useMemo(() => (whole.value ? servedRows(runSource(run!), whole.value) : ownRows(result.columns, result.types, result.rows)), [result, whole.value]);
  const one = result.rows.length === 1 && result.columns.length === 1 ? result.rows[0][0] : null;
  if (one !== null) {
    const [writer] = writers(result.columns, result.types, result.rows);
    if (writer.numeric) return <p class="stat"><b>{writer.write(one)}</b><span>{writer.name}</span></p>;
  }
  const own = () => save(new Blob([`${flat(result.columns, result.rows, ',')}\n`], { type: 'text/csv' }), 'result.csv');
  const tools = run && (!result.truncated || whole.value)
    ? <SaveRows rows={rows} url={how => address('/runs/{run_id}/export', { run_id: run, ...how })} /> : undefined;
  return <DataTable key={whole.value ? 'all' : 'first'} rows={rows} truncated={result.truncated && !whole.value} tools={tools} saveOwn={own} />;
}
