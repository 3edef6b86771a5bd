/*
 * The thread that is shown and its turns. A turn goes on at the server whatever the page does: leaving a thread only stops showing it, and
 * coming back (or another tab) follows it again.
 */
import { batch, computed, effect, signal, untracked } from '@preact/signals';
import { events } from '../api/events';
import { fetched, get, post, posted, Problem, remove } from '../api/call';
import type { Answer, Message, TurnEvent } from '../api/types';
import { chosen, loadSets, nameOf, sets } from '../data/sets';
import { added } from '../data/added';
import { go, route } from '../route';
import { guarded, notice, said } from '../shared/say';
import { heard, tell } from './follow';
import { forget, loadThreads, stateOf, touch } from './list';
import { fresh, newTurn, taker, type Turn } from './turn';

export interface Thread { id: string; data: string | null; name: string }

export const thread = signal<Thread | null>(null);
export const turns = signal<Turn[]>([]);
export const running = signal<Turn | null>(null);
export const earlier = signal<string | null>(null); /* the cursor of the messages before those that are shown */
export const loading = signal(false);

export const isCode = (text: string) => /^\s*(sql|python):/i.test(text);
export const isPlan = (text: string) => /^\s*plan:/i.test(text);

let control: (AbortController & { sent?: boolean }) | null = null;
const HISTORY = 60;

/* ---- opening and leaving ---- */

/* The page no longer shows the turn; on the server it goes on. */
function leaveTurn() {
  control?.abort();
  control = null;
  running.value = null;
}

function leave() {
  leaveTurn();
  batch(() => {
    thread.value = null;
    turns.value = [];
    earlier.value = null;
  });
}

async function verifiedRuns(data: string | null): Promise<Set<string>> {
  if (!data) return new Set();
  try {
    const { verified } = await get('/verified', { limit: 200, dataset_id: data });
    return new Set(verified.map(v => v.run_id));
  } catch {
    return new Set(); /* the page works without */
  }
}

function pastTurns(messages: Message[], skip: string | undefined, confirmed: Set<string>): Turn[] {
  const made: Turn[] = [];
  for (const m of messages) {
    if (skip && m.run_id === skip) continue;
    if (m.role === 'user') {
      const turn = newTurn(m.content, shownOf(m));
      turn.past = true;
      turn.answer.value = {};
      made.push(turn);
    } else if (m.role === 'assistant' && made.length) {
      const turn = made[made.length - 1], words: Answer = { ...m.metadata, response: m.content, run_id: m.run_id ?? undefined };
      turn.runId = words.run_id;
      turn.confirmed = !!m.run_id && confirmed.has(m.run_id);
      turn.answer.value = words;
      if (m.run_id && m.metadata?.code) turn.more = async () => {
        turn.more = undefined;
        try {
          const run = await get('/runs/{run_id}', { run_id: m.run_id }), code = run.python_code || run.compiled_sql;
          const ran: Answer['code_runs'] = code ? [{ language: run.python_code ? 'python' : 'sql', code, plan: run.plan_json ?? undefined, exec_ms: run.exec_time_ms ?? undefined }] : [];
          turn.answer.value = { ...words, result: run.result_json, code_runs: ran, usage: words.usage ?? run.usage_json };
        } catch { /* the words are there */ }
      };
    }
  }
  return made;
}

/* A plan that was picked is shown as the reading that it was offered as. */
function shownOf(m: Message): string {
  if (!isPlan(m.content)) return m.content;
  return (m.metadata as { reading?: string } | null)?.reading?.replaceAll('`', '') || 'A reading that you picked';
}

const page = (id: string, cursor?: string) => get('/threads/{thread_id}/messages', { thread_id: id, limit: HISTORY, cursor });

/* The turn that is under way in a thread: what was asked, and the events from its beginning. null: there is none. */
async function followTurn(id: string) {
  const own = new AbortController(), answer = await fetched('/thread/{thread_id}/turn/stream', { thread_id: id }, { signal: own.signal });
  if (answer.status === 204) return null;
  const stream = events<TurnEvent>(answer), first = await stream.next();
  return first.done || first.value.type !== 'status' ? null : { own, stream, asked: first.value };
}

async function openThread(id: string) {
  leave();
  loading.value = true;
  notice.value = null;
  try {
    const under = await followTurn(id); /* before the messages: a turn is in one of them at least */
    const { messages, before } = await page(id);
    const first = messages.find(m => m.dataset_id)?.dataset_id ?? null, data = sets.value?.some(s => s.id === first) ? first : null;
    const confirmed = await verifiedRuns(data);
    if (route.value.view !== 'thread' || route.value.id !== id) {
      under?.own.abort();
      return;
    }
    batch(() => {
      thread.value = { id, data, name: first ? nameOf([first]) : '' };
      earlier.value = before;
      turns.value = pastTurns(messages, under?.asked.run_id, confirmed);
    });
    if (under) void show(begin(under.asked.message || under.asked.code || ''), under.own, async () => under.stream);
  } catch (error) {
    if ((error as Problem).status !== 404) throw error;
    go({ view: 'start' }, true);
    notice.value = 'This thread is not there any more.';
  } finally {
    loading.value = false;
  }
}

export async function showEarlier() {
  const { id, data } = thread.value!, { messages, before } = await page(id, earlier.value!);
  const confirmed = await verifiedRuns(data);
  batch(() => {
    turns.value = [...pastTurns(messages, undefined, confirmed), ...turns.value];
    earlier.value = before;
  });
}

export async function deleteThread(id: string) {
  try {
    await remove('/thread/{thread_id}', { thread_id: id });
  } catch (error) {
    if ((error as Problem).status !== 404) throw error;
  }
  forget(id);
  tell({ type: 'deleted', thread: id });
  if (route.value.view === 'thread' && route.value.id === id) go({ view: 'start' });
}

/* ---- turns ---- */

function begin(question: string, shown?: string): Turn {
  const turn = newTurn(question, shown);
  batch(() => {
    turn.live.value = fresh(thread.value ? 'Sending' : 'Getting the data ready');
    turns.value = [...turns.value, turn];
    running.value = turn;
  });
  return turn;
}

const SETTLED_MS = 2500; /* a kernel that was started for the turn, or given up after it, is counted by then */
const RUNS = new Set(['step', 'code_run', 'image']);

/* A turn that ended while nobody followed it, from the history. */
async function endedTurn(turn: Turn): Promise<Turn | undefined> {
  const { messages } = await page(thread.value!.id), known = new Set(turns.value.map(t => t.runId));
  return pastTurns(messages, undefined, new Set()).reverse().find(t => t.question === turn.question && t.runId && !known.has(t.runId));
}

/* Shows a turn to its end. A connection that is cut is taken up again while the turn is under way. */
async function show(turn: Turn, own: AbortController & { sent?: boolean }, start: () => Promise<AsyncGenerator<TurnEvent>>) {
  control = own;
  const events = taker(turn);
  try {
    let stream = await start();
    own.sent = true;
    for (;;) {
      try {
        for await (const event of stream) {
          events.take(event);
          if (RUNS.has(event.type) || ('stage' in event && event.stage === 'executing')) stateOf(thread.value!.id, 'hot'); /* code runs in it */
        }
      } catch (error) {
        if ((error as Error).name === 'AbortError') throw error;
      }
      if (events.done() || control !== own) break;
      const again = await followTurn(thread.value!.id);
      if (control !== own) break;
      if (!again) { /* it ended meanwhile: its answer is kept, or it is lost */
        const kept = await endedTurn(turn);
        if (kept) {
          turns.value = turns.value.map(t => (t === turn ? kept : t));
          events.give(kept.answer.value!);
        } else turn.error ||= 'The connection was cut before the answer was complete.';
        break;
      }
      own.signal.addEventListener('abort', () => again.own.abort());
      events.rewind();
      stream = again.stream;
    }
  } catch (error) {
    if ((error as Error).name === 'AbortError') turn.stopped = true;
    else turn.error = (error as Problem).status === 404 && thread.value ? 'This thread is no longer there. Begin a new one.' : (error as Error).message;
  }
  if (control !== own) return; /* left */
  control = null;
  batch(() => {
    events.end();
    running.value = null;
  });
  turn.runId = turn.answer.value?.run_id;
  said.value = turn.error ? `Problem: ${turn.error}` : turn.stopped ? 'Stopped' : 'The answer is there';
  if (thread.value) {
    const { id } = thread.value;
    tell({ type: 'turn', thread: id, ended: true });
    void loadThreads();
    setTimeout(() => void get('/thread/{thread_id}/status', { thread_id: id }).then(now => stateOf(id, now.sandbox_status), () => undefined), SETTLED_MS);
  }
}

export async function ask(question: string, shown?: string): Promise<void> {
  const text = question.trim();
  if (!text || running.value) return;
  if (!thread.value && !chosen.value.length) {
    notice.value = 'Choose some data first, or add a file.';
    return;
  }
  notice.value = null;
  added.value = null;
  const own = new AbortController();
  await show(begin(text, shown), own, async () => {
    if (!thread.value) {
      const title = (shown ?? text).slice(0, 120);
      const { thread_id: id } = await posted('/thread/new', {}, { datasets: chosen.value, title }, { signal: own.signal });
      thread.value = { id, data: chosen.value[0], name: nameOf(chosen.value) };
      touch(id, title);
      go({ view: 'thread', id });
    }
    const answer = await post('/thread/{thread_id}/message/stream', { thread_id: thread.value.id }, { message: text }, { signal: own.signal });
    tell({ type: 'turn', thread: thread.value.id, ended: false });
    return events<TurnEvent>(answer);
  });
}

export async function stopTurn() {
  if (!control) return;
  if (!control.sent) {
    control.abort();
    return;
  }
  try {
    await post('/thread/{thread_id}/stop', { thread_id: thread.value!.id }, {});
  } catch (error) {
    notice.value = `The answer could not be stopped. ${(error as Error).message}`;
  }
}

export function retry(turn: Turn) {
  if (running.value) return;
  turns.value = turns.value.filter(t => t !== turn);
  void ask(turn.question, turn.shown);
}

/* ---- other tabs ---- */

heard(async message => {
  if (message.type === 'threads') void loadThreads();
  else if (message.type === 'deleted') {
    forget(message.thread);
    if (thread.value?.id !== message.thread) return;
    go({ view: 'start' }, true);
    notice.value = 'This thread was deleted in another tab.';
  }
  else if (message.type === 'turn') {
    void loadThreads();
    const here = thread.value;
    if (!here || here.id !== message.thread || running.value) return;
    const under = message.ended ? null : await followTurn(here.id);
    if (thread.value !== here || running.value) {
      under?.own.abort();
      return;
    }
    if (under) void show(begin(under.asked.message || under.asked.code || ''), under.own, async () => under.stream);
    else { /* it ended before it could be followed */
      const { messages } = await page(here.id), confirmed = await verifiedRuns(here.data);
      if (thread.value !== here || running.value) return;
      const known = new Set(turns.value.map(t => t.runId)), news = pastTurns(messages, undefined, confirmed);
      turns.value = [...turns.value, ...news.filter(t => t.runId && !known.has(t.runId))];
    }
  }
});

/* ---- where the address leads ---- */

export function begun() {
  const ready = computed(() => sets.value !== null);
  effect(() => {
    const at = route.value;
    if (!ready.value) return;
    untracked(() => {
      if (at.view === 'thread' && thread.value?.id !== at.id) void guarded(() => openThread(at.id));
      else if (at.view === 'start' && (thread.value || turns.value.length)) {
        leave();
        void loadSets().catch(() => undefined);
      }
    });
  });
  effect(() => {
    const at = route.value, name = thread.value?.name;
    document.title = at.view === 'status' ? 'Status · Riddle' : name ? `${name} · Riddle` : 'Riddle';
  });
}
