/* How a file was read, as sentences: what was found, what was left out, and what was guessed, with the other way beside it. */
import { useSignal } from '@preact/signals';
import { address, patch } from '../api/call';
import type { ReadOptions, Report } from '../api/types';
import { exported } from '../answer/result';
import { Button } from '../shared/button';
import { guarded } from '../shared/say';
import { count, sentence } from '../shared/text';

/* What is as in most files is not worth a word. */
const SEPARATORS: Record<string, string> = { '\t': 'tabs', ';': 'semicolons', '|': 'bars', ' ': 'blanks' };

/* Notes of the server that say what is no loss, and those that say what its API takes instead. */
const HARMLESS = /skipped|made one|is a table$/, GUESSED = /^whether (day or month|numbers)/, OPTION = /[;:,]? say \w+.*$/;

interface Guess { text: string; name: keyof ReadOptions; other: string; label: string }

function guessesIn(report: Report): Guess[] {
  const found: Guess[] = [], date = report.columns?.find(c => c.guessed && c.date_order);
  if (date) {
    const day = date.date_order === 'dmy';
    found.push({ text: `Dates such as those in ${date.name} were read with the ${day ? 'day' : 'month'} first. This is a guess.`, name: 'date_order', other: day ? 'mdy' : 'dmy', label: `Read with the ${day ? 'month' : 'day'} first` });
  }
  const numbers = report.notes?.find(n => n.startsWith('whether numbers'));
  if (numbers) {
    const [was, other] = numbers.includes('(thousands)') ? ['thousands', 'decimals'] : ['decimals', 'thousands'];
    found.push({ text: `Signs in numbers were read as those of ${was}. This is a guess.`, name: 'decimal', other: report.decimal === ',' ? '.' : ',', label: `Read them as ${other}` });
  }
  return found;
}

export function ReportView({ report, data, table, again }: { report: Report; data: string; table?: string; again?: () => Promise<unknown> }) {
  const busy = useSignal(false);
  const facts = [report.rows !== undefined && count(report.rows, 'row'),
    report.encoding && report.encoding !== 'utf-8' && `encoding ${report.encoding}`, report.delimiter && report.delimiter !== ',' && `separated by ${SEPARATORS[report.delimiter] ?? report.delimiter}`,
    report.header_line !== undefined && report.header_line !== 1 && `names in line ${report.header_line}`, report.decimal === ',' && 'decimal commas'].filter(Boolean);
  const guesses = guessesIn(report), notes = (report.notes ?? []).filter(n => !GUESSED.test(n) && !(report.refused_rows?.length && /refused/.test(n)));
  const readAs = (guess: Guess) => guarded(async () => {
    busy.value = true;
    try {
      await patch('/data/{data_id}', { data_id: data }, { options: { [guess.name]: guess.other } });
      await again!();
    } finally {
      busy.value = false;
    }
  });
  return (
    <div class="report">
      {!!facts.length && <p class="note">Read: {facts.join(', ')}.</p>}
      {notes.map(n => <p class={`note ${HARMLESS.test(n) ? '' : 'doubt'}`}>{sentence(n.replace(OPTION, ''))}.</p>)}
      {guesses.map(g => (
        <p class="note doubt guess">{g.text} {again && <Button class="small" disabled={busy.value} onClick={() => readAs(g)}>{g.label}</Button>}</p>
      ))}
      {!!report.refused_rows?.length && (
        <details><summary class="doubt">{count(report.refused ?? report.refused_rows.length, 'line')} could not be read</summary>
          <ul>{report.refused_rows.map(r => <li><b>Line {r.line}</b>: {r.reason}<pre>{r.text}</pre></li>)}</ul>
          {table && <Button class="small" icon="down" onClick={() => guarded(() => exported(address('/data/{data_id}/tables/{table}/refused', { data_id: data, table }), `${table}-refused.csv`))}>Save all of them</Button>}
        </details>
      )}
    </div>
  );
}
