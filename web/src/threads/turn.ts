/*
 * A turn as the page knows it: what was asked, what came so far while it is under way, and the answer once it is whole. Events of a stream may
 * come by the thousand; what is shown changes once a frame.
 */
import { type Signal, signal } from '@preact/signals';
import type { Answer, CodeRun, Output, TurnEvent } from '../api/types';

export interface Live { status: string; progress: number; text: string; output: string; images: Output[]; runs: CodeRun[];
  prompt: string | null /* of input(), while the code waits for a line */ }

export interface Turn {
  key: number;
  question: string;
  shown: string;
  runId?: string;
  live: Signal<Live | null>; /* null: it is not under way */
  answer: Signal<Answer | null>;
  error?: string;
  stopped?: boolean;
  past: boolean; /* from the history */
  confirmed?: boolean;
  more?: () => Promise<void>; /* brings the result of a turn of the history */
}

let last = 0;
export const newTurn = (question: string, shown = question): Turn =>
  ({ key: ++last, question, shown, live: signal(null), answer: signal(null), past: false });

const TOOLS: Record<string, string> = {
  run_sql: 'Running SQL', run_plan: 'Running a query', run_python: 'Running Python', describe_table: 'Looking at a table',
  find_values: 'Looking for spellings', show_chart: 'Drawing a chart', ask_person: 'Asking you', list_files: 'Looking at the files' };

export const fresh = (status: string): Live => ({ status, progress: 0, text: '', output: '', images: [], runs: [], prompt: null });

/* Takes events into a turn. `end` shows what has come at once. */
export function taker(turn: Turn) {
  let now = { ...(turn.live.value ?? fresh('Sending')) }, thought = '', frame = 0, done: Answer | null = null;
  const show = () => {
    frame = 0;
    turn.live.value = { ...now };
  };
  return {
    take(event: TurnEvent) {
      if (event.type === 'status' || event.type === 'progress') {
        now.status = event.text ?? now.status;
        now.progress = event.progress || 0;
        now.prompt = event.stage === 'input' ? event.prompt ?? '' : null;
      } else if (event.type === 'tool_call') now.status = TOOLS[event.name] || `Using ${event.name}`;
      else if (event.type === 'thinking') {
        thought = (thought + event.text).slice(-160);
        now.status = thought.replace(/\s+/g, ' ');
      } else if (event.type === 'token') now.text += event.text;
      else if (event.type === 'step') now.output = (now.output + event.text).slice(-20000);
      else if (event.type === 'code_run') {
        now.output = '';
        now.runs = [...now.runs, event];
      } else if (event.type === 'image') now.images = [...now.images, event];
      else if (event.type === 'error') turn.error = event.message || event.error?.message;
      else if (event.type === 'done') done = event as Answer;
      frame ||= requestAnimationFrame(show);
    },
    /* Forgets what was shown of a turn whose events come again. */
    rewind() {
      now = fresh(now.status);
      thought = '';
      turn.error = undefined;
    },
    /* The answer, from elsewhere. */
    give(answer: Answer) { done = answer; },
    done: () => done,
    end() {
      cancelAnimationFrame(frame);
      turn.answer.value = { code_runs: now.runs, response: now.text, ...done, images: done?.images?.length ? done.images : now.images };
      turn.live.value = null;
    },
  };
}
