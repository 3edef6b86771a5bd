import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { address, call, key, type Params } from '../api/call';
import type { Result } from '../api/types';
import { Button } from '../shared/button';
import { Menu } from '../shared/menu';
import { guarded } from '../shared/say';
import { save } from '../shared/save';
import { flat, group, writers } from '../shared/text';
import { ChartView } from './chart';
import { chartFor } from './spec';
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

/* The only value of a result, if it is a number. */
export function oneNumber(result: Result | null | undefined): string | null {
  if (result?.rows?.length !== 1 || result.columns.length !== 1 || result.rows[0][0] === null) return null;
  const [writer] = writers(result.columns, result.types, result.rows);
  return writer.numeric ? writer.write(result.rows[0][0]) : null;
}

const CHARTED = 1000; /* rows of a chart that the person asked for */

/* A chart of rows that came without one. */
function OwnChart({ result, run }: { result: Result; run?: string }) {
  const page = useSignal<RowPage | null>(null), wanted = result.truncated && !!run;
  useEffect(() => { if (wanted) void guarded(async () => { page.value = await runSource(run!)(0, { limit: CHARTED }); }); }, [result, run]);
  const drawn = useMemo(() => (page.value ? { ...result, ...page.value } : result), [result, page.value]), chart = useMemo(() => chartFor(drawn), [drawn]);
  if (!chart || (wanted && !page.value)) return null;
  const left = (page.value?.total ?? 0) > drawn.rows.length;
  return <>{left && <p class="note">Drawn of the first {group(String(drawn.rows.length))} rows.</p>}<ChartView chart={chart} result={drawn} /></>;
}

/* One number is shown as one number. Of a result that was cut the server has the rest. */
export function ResultView({ result, run, charted = false }: { result: Result; run?: string; charted?: boolean }) {
  const whole = useSignal<RowPage | null>(null), charting = useSignal(false);
  useEffect(() => {
    whole.value = null;
    if (result.truncated && run) runSource(run)(0).then(page => { if ((page.total ?? 0) > result.rows.length) whole.value = page; }, () => undefined);
  }, [result, run]);
  const rows = useMemo(() => (whole.value ? servedRows(runSource(run!), whole.value) : ownRows(result.columns, result.types, result.rows)), [result, whole.value]);
  const chartable = useMemo(() => !charted && !!chartFor(result), [result, charted]);
  const one = oneNumber(result);
  if (one !== null) return <p class="stat"><b>{one}</b><span dir="auto">{result.columns[0]}</span></p>;
  const own = () => save(new Blob([`${flat(result.columns, result.rows, ',')}\n`], { type: 'text/csv' }), 'result.csv');
  const tools = (
    <>
      {chartable && <Button class="quiet" icon="chart" aria-pressed={charting.value} onClick={() => { charting.value = !charting.value; }}>Chart</Button>}
      {run && (!result.truncated || whole.value) ? <SaveRows rows={rows} url={how => address('/runs/{run_id}/export', { run_id: run, ...how })} />
        : <Button class="quiet" icon="down" onClick={own}>CSV</Button>}
    </>
  );
  return (
    <>
      {charting.value && <OwnChart result={result} run={run} />}
      <DataTable key={whole.value ? 'all' : 'first'} rows={rows} truncated={result.truncated && !whole.value} tools={tools} />
    </>
  );
}
