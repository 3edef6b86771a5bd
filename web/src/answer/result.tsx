import { useMemo } from 'preact/hooks';
import type { Result } from '../api/types';
import { writers } from '../shared/text';
import { ownRows } from './rows';
import { DataTable } from './table';

/* One number is shown as one number. */
export function ResultView({ result }: { result: Result }) {
  const rows = useMemo(() => ownRows(result.columns, result.types, result.rows), [result]);
  const one = result.rows.length === 1 && result.columns.length === 1 ? result.rows[0][0] : null;
  if (one !== null) {
    const [writer] = writers(result.columns, result.types, result.rows);
    if (writer.numeric) return <p class="stat"><b>{writer.write(one)}</b><span>{writer.name}</span></p>;
  }
  return <DataTable rows={rows} truncated={result.truncated} />;
}
