/*
 * One execution that is stepped through, in a sandbox of its own that has the data of the thread: what the thread's kernel holds is not
 * touched. The sandbox is deleted with the session.
 */
import { batch, computed, signal } from '@preact/signals';
import type { DebugCommand } from 'riddle-openapi';
import { get, post, posted, remove } from '../api/call';
import { events } from '../api/events';
import type { SandboxEvent } from '../api/types';
import { momentAt, nextAt, type Pause, type Step, type Told } from './history';
import type { Stepped } from './open';

type Word = DebugCommand['command'];
export type State = 'starting' | 'paused' | 'running' | 'ended';
export interface Outcome { status: string; error?: string | null; result?: unknown }
export interface Evaluated { expression: string; value?: Told; error?: string }

/* Those of a thread's kernel, about: the states that `back` returns to are processes of the sandbox. */
const TERMS = { policy: 'open' as const, max_execution_time: 120, max_memory_mb: 512, max_cpu_percent: 100, max_threads: 32 };
const EVALUATED_MAX = 50;

async function dataOf(of: Stepped): Promise<{ datasets: string[]; file_ids?: string[] }> {
  if (!of.thread) return { datasets: of.datasets };
  const { datasets, file_ids } = await get('/thread/{thread_id}/status', { thread_id: of.thread });
  return { datasets: datasets ?? (file_ids?.length ? [] : of.datasets), ...(file_ids?.length && { file_ids }) };
}

export function newSession(of: Stepped) {
  const state = signal<State>('starting'), steps = signal<Step[]>([]), pause = signal<Pause | null>(null), outcome = signal<Outcome | null>(null);
  const chosen = signal<number | null>(null); /* a position of the timeline; null: now */
  const points = signal<Set<number>>(new Set()), problem = signal<string | null>(null), evaluated = signal<Evaluated[]>([]);
  const position = computed(() => Math.min(chosen.value ?? Infinity, steps.value.length));
  const now = computed(() => position.value === steps.value.length);
  const moment = computed(() => momentAt(steps.value, position.value, now.value ? pause.value : null));
  const next = computed(() => nextAt(steps.value, position.value, pause.value));

  let sandbox = '', debug = '', own: AbortController | null = null, waiting: Step[] = [], frame = 0;
  let sent = points.value, turn: Promise<unknown> = Promise.resolve(); /* the breakpoints that the kernel knows; the command before */

  /* Steps may come by the thousand; what is shown changes once a frame, and before anything else does. */
  function flush() {
    cancelAnimationFrame(frame);
    frame = 0;
    if (waiting.length) steps.value = [...steps.value, ...waiting];
    waiting = [];
  }

  function paused(told: Pause) {
    const at = told.reason === 'back' ? steps.value.findIndex(s => s.step >= told.step) : -1;
    if (at >= 0) steps.value = steps.value.slice(0, at);
    pause.value = told;
    state.value = 'paused';
    if (sent !== points.value) void sendPoints(); /* set before the code began */
  }

  function take(event: SandboxEvent) {
    if (event.type === 'step') {
      if (!('line' in event)) return; /* output: the steps have it, too */
      waiting.push(event);
      frame ||= requestAnimationFrame(flush);
    } else if (event.type === 'status' || event.type === 'result' || event.type === 'error') batch(() => {
      flush();
      if (event.type === 'result') outcome.value = event;
      else if (event.type === 'error') problem.value = event.message || event.error?.message || 'The execution failed.';
      else if ('reason' in event) {
        if (event.line !== undefined) paused(event as Pause);
      } else if (event.stage === 'debugging') debug = event.debug_id ?? '';
      else if (event.stage === 'running') {
        pause.value = null;
        state.value = 'running';
      }
    });
  }

  async function close() {
    own?.abort();
    own = null;
    cancelAnimationFrame(frame);
    frame = 0;
    waiting = [];
    const old = sandbox;
    sandbox = debug = '';
    turn = Promise.resolve();
    if (old) await remove('/sandbox/{sandbox_id}', { sandbox_id: old }).catch(() => undefined); /* it expires by itself */
  }

  async function start() {
    await close();
    const mine = own = new AbortController();
    batch(() => {
      state.value = 'starting';
      steps.value = [];
      pause.value = outcome.value = problem.value = chosen.value = null;
    });
    try {
      const data = await dataOf(of), { sandbox_id: id } = await posted('/sandbox/create', {}, { ...TERMS, ...data });
      if (own !== mine) { /* closed meanwhile */
        await remove('/sandbox/{sandbox_id}', { sandbox_id: id }).catch(() => undefined);
        return;
      }
      sandbox = id;
      sent = points.value;
      const answer = await post('/sandbox/{sandbox_id}/debug', { sandbox_id: id },
        { code: of.code, stop_on_entry: true, rewind: true, exceptions: 'uncaught', breakpoints: [...sent].map(line => ({ line })) }, { signal: mine.signal });
      for await (const event of events<SandboxEvent>(answer)) if (own === mine) take(event);
    } catch (error) {
      if (own === mine && (error as Error).name !== 'AbortError') problem.value = (error as Error).message;
    }
    if (own === mine) batch(() => {
      flush();
      pause.value = null;
      state.value = 'ended';
    });
  }

  /* One at a time: the kernel takes no second command while it works on one. */
  async function send<T>(command: Word, more: Omit<DebugCommand, 'command'> = {}): Promise<T> {
    const run = () => posted('/sandbox/{sandbox_id}/debug/{debug_id}', { sandbox_id: sandbox, debug_id: debug }, { command, ...more }) as Promise<T>;
    if (command === 'stop' || command === 'pause') return run();
    const mine = turn.then(run);
    turn = mine.catch(() => undefined);
    return mine;
  }

  async function command(word: Word, more: Omit<DebugCommand, 'command'> = {}) {
    const moves = ['continue', 'next', 'step', 'out'].includes(word);
    if (moves && state.value !== 'paused') return;
    problem.value = null;
    if (moves) state.value = 'running';
    try {
      await send(word, more);
      chosen.value = null;
    } catch (error) {
      problem.value = (error as Error).message;
      if (moves && pause.value && state.value === 'running') state.value = 'paused';
    }
  }

  /* One line back; of an earlier moment of the timeline, to that. */
  async function back() {
    const to = now.value ? (pause.value?.step ?? 1) - 1 : next.value?.step ?? 0;
    if (to >= 1) await command('back', { step: to });
  }

  async function sendPoints(line?: number) {
    sent = points.value;
    problem.value = null;
    try {
      const { breakpoints } = await send<{ breakpoints: { line: number; verified: boolean }[] }>('breakpoints', { breakpoints: [...sent].map(l => ({ line: l })) });
      points.value = sent = new Set(breakpoints.filter(b => b.verified).map(b => b.line));
      if (line && breakpoints.some(b => !b.verified)) problem.value = `No code stands at line ${line} or behind it.`;
    } catch (error) {
      problem.value = (error as Error).message;
    }
  }

  function togglePoint(line: number) {
    const wanted = new Set(points.value);
    if (!wanted.delete(line)) wanted.add(line);
    points.value = wanted;
    if (state.value === 'paused' || state.value === 'running') void sendPoints(line);
  }

  async function evaluate(expression: string) {
    let said: Evaluated;
    try {
      said = { expression, value: await send<Told>('evaluate', { expression }) };
      const { variables } = await send<Pause>('variables'); /* a statement may have changed them */
      if (pause.value) pause.value = { ...pause.value, variables };
    } catch (error) {
      said = { expression, error: (error as Error).message };
    }
    evaluated.value = [...evaluated.value, said].slice(-EVALUATED_MAX);
  }

  return { state, steps, pause, outcome, chosen, points, problem, evaluated, position, now, moment, next, start, close, command, back, togglePoint, evaluate };
}

export type Session = ReturnType<typeof newSession>;
