/* Everything that an answer holds. */
import { fetched } from '../api/call';
import type { Answer, Choice } from '../api/types';
import { draft } from '../threads/composer-state';
import { ask, isCode, isPlan, retry, thread } from '../threads/state';
import type { Turn } from '../threads/turn';
import { Button, CopyButton } from '../shared/button';
import { notice } from '../shared/say';
import { save } from '../shared/save';
import { bytes, plain, seconds } from '../shared/text';
import { ChartView } from './chart';
import { Confirm } from './confirm';
import { Figure } from './figure';
import { printed } from './printed';
import { Ran } from './ran';
import { ReadingText } from './reading-text';
import { oneNumber, ResultView } from './result';

/* The very plan that was offered: its description, sent as a question, might be read in yet another way. */
const pick = (choice: Choice) => (choice.plan ? ask(`PLAN: ${JSON.stringify(choice.plan)}`, plain(choice.reading)) : ask(choice.reading));

async function download(path: string) {
  try {
    const answer = await fetched('/files/download', { session_id: thread.value!.id, path });
    save(await answer.blob(), path.split('/').pop()!);
  } catch (error) {
    notice.value = `${path} can't be downloaded. ${(error as Error).message}`;
  }
}

const Chips = ({ children }: { children: preact.ComponentChildren }) => <div class="chips">{children}</div>;

/* What an answer says, without its reading, which has a line of its own. While it came and now that it is whole this is one Markdown, which is
   not made again. */
export function wordsOf(turn: Turn, answer: Answer): string {
  const text = (answer.response ?? '').replace(` Read as: ${answer.reading}.`, () => '');
  if (standing(turn, answer).problem || answer.status === 'cancelled') return '';
  if (answer.reading && oneNumber(answer.result) && !text.includes('\n')) return ''; /* the number says it, and its reading what it is */
  if (isCode(turn.question) && (printed(answer.result) || answer.images?.length)) return ''; /* its output speaks for itself */
  return answer.choices?.length || answer.suggestions?.length ? text.split('\n')[0] : text; /* the rest repeats the buttons */
}

function standing(turn: Turn, answer: Answer): { stopped: boolean; problem: string | null } {
  const { status } = answer, stopped = !!turn.stopped || status === 'cancelled';
  const bad = ['failed', 'rejected', 'timed_out', 'error'].includes(status ?? '') && !answer.suggestions;
  return { stopped, problem: stopped ? null : turn.error || (bad ? answer.response || 'It did not work, and the server did not say why.' : null) };
}

function Notes({ answer, text }: { answer: Answer; text: string }) {
  const flagged = answer.flagged ?? [], lost = answer.not_understood ?? [];
  return (
    <>
      {!!flagged.length && <p class="note doubt">Underlined figures are in no result of this answer. Check them before you use them.</p>}
      {answer.reading && !text.includes(answer.reading) && <p class="note reading-of">{!oneNumber(answer.result) && 'Read as: '}<ReadingText text={answer.reading} /></p>}
      {!!lost.length && <p class="note doubt">Not understood: {lost.map((word, i) => <>{i > 0 && ', '}<q>{word}</q></>)}</p>}
      {answer.warning && !text.includes(answer.warning) && <p class="note doubt">{answer.warning}</p>}
    </>
  );
}

function Meta({ turn, answer, bad }: { turn: Turn; answer: Answer; bad: boolean }) {
  const own = isCode(turn.question), runs = answer.code_runs?.length, who = own ? null : answer.model === 'builtin' ? 'Built-in planner' : answer.model;
  const facts = [who, answer.total_ms ? seconds(answer.total_ms) : null].filter(Boolean).join(' · ');
  const confirmable = !answer.verified && answer.run_id && !!runs && !turn.error && !bad && !own && !isPlan(turn.question);
  if (!facts && !confirmable && !answer.verified && !answer.response) return null;
  return (
    <div class="foot">
      {facts && <p class="meta">{facts}</p>}
      {!!answer.verified && <p class="note">Answered as you confirmed it earlier.</p>}
      {confirmable && <Confirm run={answer.run_id!} confirmed={!!turn.confirmed} />}
      {answer.response && !bad && !own && <CopyButton text={() => answer.response!} label="Copy answer" />}
    </div>
  );
}

/* All of an answer but its words. */
export function AnswerView({ turn, answer }: { turn: Turn; answer: Answer }) {
  const { result } = answer, own = isCode(turn.question), { stopped, problem } = standing(turn, answer), good = !stopped && !problem;
  const images = answer.images?.length ? answer.images : result?.outputs ?? [], read = answer.reading ? oneNumber(result) : null;
  return (
    <>
      {own && printed(result) && <pre class="output" tabIndex={0}>{printed(result)}</pre>}
      {stopped && <p class="note">Stopped before it was finished.</p>}
      {problem && (
        <div class="problem" role={turn.past ? undefined : 'alert'}>
          <span>{problem}</span>
          {!turn.past && (turn.error ? <Button onClick={() => retry(turn)}>Try again</Button>
            : <Button onClick={() => { draft.value = { text: turn.question, focus: true }; }}>Edit</Button>)}
        </div>
      )}
      {problem && own && result?.error?.traceback && <details><summary>Traceback</summary><pre class="output" tabIndex={0}>{result.error.traceback}</pre></details>}
      {good && (
        <>
          {read && <p class="stat"><b>{read}</b></p>}
          <Notes answer={answer} text={wordsOf(turn, answer)} />
          {!!answer.choices?.length && <Chips>{answer.choices.map(c => <Button onClick={() => pick(c)}>{plain(c.reading)}</Button>)}</Chips>}
          {!!answer.suggestions?.length && <Chips>{answer.suggestions.map(s => <Button onClick={() => ask(s)}>{s}</Button>)}</Chips>}
          {answer.chart && result && !!result.rows?.length && <ChartView chart={answer.chart} result={result} />}
          {!!result?.columns?.length && !read && <ResultView result={result} run={answer.run_id} charted={!!answer.chart} />}
        </>
      )}
      {images.map(output => <Figure output={output} />)}
      {!!answer.files?.length && (
        <div class="files">{answer.files.map(f => <Button icon="down" onClick={() => download(f.path)}>{f.path}{f.size ? ` (${bytes(f.size)})` : ''}</Button>)}</div>
      )}
      <Ran answer={answer} own={own} />
      <Meta turn={turn} answer={answer} bad={!!problem} />
    </>
  );
}
