/*
 * A thread as a file: a notebook that Jupyter runs against the exported data, Markdown, or one page of HTML. All are made here from what the
 * API tells: the messages, and the capsules of their runs.
 */
import { fetched, get, post } from '../api/call';
import type { Message, Messages, Result } from '../api/types';
import type { Item } from '../shared/menu';
import { notice } from '../shared/say';
import { save } from '../shared/save';
import { plain, shownText, type Value } from '../shared/text';
import type { Listed } from './list';

interface Ran { question: string; words: string; sql?: string; python?: string; result?: Result; data?: string | null }

async function told(id: string): Promise<Ran[]> {
  const all: Message[] = [];
  for (let cursor: string | null = null; ;) {
    const page: Messages = await get('/threads/{thread_id}/messages', { thread_id: id, limit: 200, cursor });
    all.unshift(...page.messages);
    cursor = page.before;
    if (!cursor) break;
  }
  const out: Ran[] = [];
  for (const m of all)
    if (m.role === 'user') out.push({ question: m.content, words: '', data: m.dataset_id });
    else if (out.length) {
      const last = out[out.length - 1];
      last.words = m.content;
      if (!m.run_id || !m.metadata?.code) continue;
      try {
        const run = await get('/runs/{run_id}', { run_id: m.run_id });
        Object.assign(last, { python: run.python_code ?? undefined, sql: run.compiled_sql ?? undefined, result: run.result_json ?? undefined });
      } catch { /* its capsule is gone: the words are there */ }
    }
  return out;
}

const asked = (ran: Ran) => (/^\s*plan:/i.test(ran.question) ? 'A reading that was picked' : ran.question);
const cell = (v: Value) => (v === null ? '' : shownText(v)).replaceAll('|', '\\|').replaceAll('\n', ' ');
const ROWS = 50;

function tableMarkdown(result: Result | undefined): string {
  if (!result?.columns?.length) return '';
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`;
  const more = result.rows.length > ROWS ? `\n\n${ROWS} of ${result.rows.length} rows are shown.` : '';
  return [line(result.columns.map(cell)), line(result.columns.map(() => '---')), ...result.rows.slice(0, ROWS).map(r => line(r.map(cell)))].join('\n') + more;
}

const fenced = (code: string, language: string) => {
  const fence = '`'.repeat(Math.max(3, ...[...code.matchAll(/`+/g)].map(m => m[0].length + 1)));
  return `${fence}${language}\n${code}\n${fence}`;
};

function markdown(title: string, runs: Ran[]): string {
  const parts = runs.map(ran => [`## ${asked(ran).split('\n')[0]}`, ran.words, tableMarkdown(ran.result),
    ran.python ? fenced(ran.python, 'python') : ran.sql ? fenced(ran.sql, 'sql') : ''].filter(Boolean).join('\n\n'));
  return `# ${title}\n\n${parts.join('\n\n')}\n`;
}

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

function html(title: string, runs: Ran[]): string {
  const table = (result?: Result) => (!result?.columns?.length ? '' : `<table><thead><tr>${result.columns.map(c => `<th>${escaped(c)}</th>`).join('')}</tr></thead><tbody>${
    result.rows.slice(0, 500).map(r => `<tr>${r.map(v => `<td>${escaped(v === null ? '' : shownText(v))}</td>`).join('')}</tr>`).join('')}</tbody></table>`);
  const parts = runs.map(ran => `<section><h2>${escaped(asked(ran))}</h2><p>${escaped(plain(ran.words)).replaceAll('\n', '<br>')}</p>${table(ran.result)}${
    ran.python || ran.sql ? `<details><summary>What was run</summary><pre>${escaped(ran.python ?? ran.sql!)}</pre></details>` : ''}</section>`);
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"><title>${escaped(title)}</title><style>
body{font:16px/1.55 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem;color:#1b2124}h2{font-size:1.1rem;border-top:1px solid #e3e0d9;padding-top:1.2rem;white-space:pre-wrap}
table{border-collapse:collapse;font-size:.875rem}th,td{border:1px solid #e3e0d9;padding:.3rem .6rem;text-align:left}pre{background:#f3f1ec;padding:.8rem;overflow:auto}</style></head><body><h1>${escaped(title)}</h1>${parts.join('')}</body></html>\n`;
}

/* Python names of data frames, as the kernel makes them of tables. */
const variable = (table: string) => table.replace(/\W/g, '_').replace(/^(?=\d)/, '_');

/* The data goes into the notebook as CSV texts where it is small enough to be asked for, else the notebook reads a file beside it. */
async function notebook(title: string, runs: Ran[], files: Map<string, DataFile>): Promise<string> {
  const markdownCell = (text: string) => ({ cell_type: 'markdown', id: cellId(), metadata: {}, source: text });
  const codeCell = (text: string) => ({ cell_type: 'code', id: cellId(), metadata: {}, execution_count: null, outputs: [], source: text });
  let n = 0;
  const cellId = () => `cell-${++n}`;
  const loads = [...files].map(([table, file]) => `${variable(table)} = ${reading(file)}\ndb.register(${JSON.stringify(table)}, ${variable(table)})`);
  const setup = ['import pandas as pd', 'import numpy as np', 'import matplotlib.pyplot as plt', 'try:', '    import duckdb', '    db = duckdb.connect()',
    'except ImportError:', '    import re', '    import sqlite3', '    import warnings', '',
    '    warnings.warn("SQLite stands in for DuckDB, which is not installed (pip install duckdb): it divides integers without a remainder")', '', '    class db:  # the SQL of simple questions runs in SQLite, too', '        connection = sqlite3.connect(":memory:")', '',
    '        connection.create_function("date_trunc", 2, lambda unit, when: when and {',
    '            "year": when[:4] + "-01-01", "month": when[:7] + "-01", "day": when[:10], "hour": when[:13] + ":00:00"}[unit])', '',
    '        @classmethod', '        def register(cls, name, frame):', '            frame.to_sql(name, cls.connection, index=False, if_exists="replace")', '',
    '        @classmethod', '        def sql(cls, text):', '            try:', '                # A date is a text here: the same, without what would make a number of it.',
    '                text = re.sub(r"(?i)\\bAS (DATE|TIMESTAMP)\\)", "AS TEXT)", text)', '                cls.frame = pd.read_sql_query(text, cls.connection)',
    '            except Exception as error:', '                raise RuntimeError("this SQL needs DuckDB: pip install duckdb") from error', '            return cls', '',
    '        @classmethod', '        def df(cls):', '            return cls.frame', '', '', 'def sql(text):', '    return db.sql(text).df()', '', ''].join('\n');
  const cells: object[] = [markdownCell(`# ${title}\n\nExported from Riddle.${files.size ? ' Its data lies beside it.' : ''}`), codeCell(`${setup}\n${loads.join('\n')}`.trimEnd())];
  for (const ran of runs) {
    cells.push(markdownCell(`## ${asked(ran).split('\n')[0]}\n\n${ran.words}`));
    if (ran.python) cells.push(codeCell(ran.python));
    else if (ran.sql) cells.push(codeCell(`sql("""\n${ran.sql.replaceAll('\\', '\\\\').replaceAll('"""', '\\"""')}\n""")`));
  }
  return JSON.stringify({ cells, metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' }, language_info: { name: 'python' } }, nbformat: 4, nbformat_minor: 5 }, null, 1);
}

/* The columns have the types that the thread's own frames have: times are times, and digits of an id stay text. */
interface DataFile { name: string; times: string[]; texts: string[] }
function reading({ name, times, texts }: DataFile): string {
  const more = [times.length && `parse_dates=${JSON.stringify(times)}`, texts.length && `dtype={${texts.map(t => `${JSON.stringify(t)}: str`).join(', ')}}`];
  return `pd.read_csv(${[JSON.stringify(name), ...more].filter(Boolean).join(', ')})`;
}

/* The tables of the thread's data as CSV files, where the server exports them. */
async function tablesOf(runs: Ran[]): Promise<Map<string, DataFile>> {
  const data = runs.find(r => r.data)?.data, files = new Map<string, DataFile>();
  if (!data) return files;
  const schema = await get('/datasets/{dataset_id}/schema', { dataset_id: data });
  for (const { table, schema: columns } of schema.files) {
    const typed = (type: RegExp) => Object.entries(columns).filter(([, c]) => type.test(c.sql_type ?? '')).map(([name]) => name);
    files.set(table, { name: `${table}.csv`, times: typed(/^(DATE|TIMESTAMP)/), texts: typed(/^VARCHAR/) });
  }
  return files;
}

const safe = (title: string) => title.replace(/[^\p{L}\p{N} _-]/gu, '').trim().slice(0, 60) || 'thread';

async function exported(item: Listed, kind: 'ipynb' | 'md' | 'html'): Promise<void> {
  const title = item.title || 'Thread', runs = await told(item.id), name = safe(title);
  if (kind === 'md') save(new Blob([markdown(title, runs)], { type: 'text/markdown' }), `${name}.md`);
  else if (kind === 'html') save(new Blob([html(title, runs)], { type: 'text/html' }), `${name}.html`);
  else {
    const files = await tablesOf(runs);
    save(new Blob([await notebook(title, runs, files)], { type: 'application/x-ipynb+json' }), `${name}.ipynb`);
    for (const [table, file] of files) {
      const made = await post('/thread/{thread_id}/execute', { thread_id: item.id }, { language: 'sql', code: `SELECT * FROM "${table.replaceAll('"', '""')}"`, max_rows: 1 });
      const { run_id: run } = await made.json() as { run_id: string };
      save(await (await fetched('/runs/{run_id}/export', { run_id: run, format: 'csv' })).blob(), file.name);
    }
  }
}

export function exportItems(item: Listed): Item[] {
  const act = (kind: 'ipynb' | 'md' | 'html') => async () => {
    try {
      await exported(item, kind);
    } catch (error) {
      notice.value = `The thread was not exported. ${(error as Error).message}`;
    }
  };
  return [{ label: 'Save as notebook', icon: 'down', act: act('ipynb') }, { label: 'Save as Markdown', icon: 'down', act: act('md') }, { label: 'Save as HTML', icon: 'down', act: act('html') }];
}
