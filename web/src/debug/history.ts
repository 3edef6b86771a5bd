/* What the steps that were told say about any moment: the frames and their variables, what changed last, what was written. */

import type { PauseEvent, StepEvent, Variable } from '../api/types';

export type Told = Variable;
export type Step = Pick<StepEvent, 'step' | 'line' | 'function' | 'depth'> & Partial<StepEvent>;
export type Pause = PauseEvent & Required<Pick<PauseEvent, 'step' | 'line' | 'depth' | 'function' | 'frames'>>;

export interface Frame { name: string; variables: Map<string, Told> }

export interface Moment {
  frames: Frame[]; /* the innermost first */
  changed: Set<string>; /* names of the frame that the last step ran in, which has `changedIn` as its index in frames */
  changedIn: number;
  output: { text: string; bad: boolean }[];
  last?: Step;
}

export const frameName = (of: { function: string; cell?: string }) =>
  (of.function === '<module>' ? 'Top level' : `${of.function}()`) + (of.cell ? ` ${of.cell}` : '');

/* The moment after the first `count` steps. `pause` is that of this moment: it knows all variables of the innermost frame. */
export function momentAt(steps: Step[], count: number, pause: Pause | null): Moment {
  const stack: (Frame & { done?: boolean })[] = [], output: Moment['output'] = [];
  let last: Step | undefined, changed = new Set<string>();
  for (const step of steps.slice(0, count)) {
    const name = frameName(step);
    stack.length = Math.min(stack.length, step.depth + 1);
    while (stack.length <= step.depth) stack.push({ name, variables: new Map() });
    let frame = stack[step.depth];
    if (frame.done || frame.name !== name) frame = stack[step.depth] = { name, variables: new Map() }; /* another call */
    changed = new Set();
    for (const [variable, value] of Object.entries(step.variables ?? {})) {
      frame.variables.set(variable, value);
      changed.add(variable);
    }
    for (const variable of step.removed ?? []) frame.variables.delete(variable);
    frame.done = !!step.returned;
    if (step.output) output.push({ text: step.output, bad: false });
    if (step.log) output.push({ text: `${step.log}\n`, bad: false });
    if (step.stderr) output.push({ text: step.stderr, bad: true });
    last = step;
  }
  if (pause) {
    const { depth } = pause, name = frameName(pause), top = last && stack.length - 1;
    stack.length = Math.min(stack.length, depth + 1);
    while (stack.length <= depth) stack.push({ name: frameName(pause.frames[depth - stack.length] ?? pause), variables: new Map() });
    stack[depth] = { name, variables: new Map(Object.entries(pause.variables ?? {})) };
    if (top !== undefined && top !== depth) changed = new Set();
  }
  const frames = stack.slice().reverse();
  return { frames, changed, changedIn: last ? frames.length - 1 - Math.min(last.depth, frames.length - 1) : -1, output, last };
}

/* What runs next after the first `count` steps: the line, and the number that `back` takes. */
export function nextAt(steps: Step[], count: number, pause: Pause | null): { line: number; step: number } | null {
  if (count >= steps.length) return pause && { line: pause.line, step: pause.step };
  const next = steps[count], before = steps.slice(0, count).reduce((most, s) => Math.max(most, s.step), 0);
  return { line: next.line, step: next.resumed ? before + 1 : next.step };
}
