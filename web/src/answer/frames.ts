/* Work that would keep a frame waiting is done in steps, some of them in each frame. */

const BUDGET_MS = 8;
const waiting = new Set<() => boolean>();
let frame = 0;

function work(steps: Iterable<() => boolean>): void {
  const end = performance.now() + BUDGET_MS;
  for (const step of steps) {
    let more = true;
    while (more && performance.now() < end) more = step();
    if (more) waiting.add(step);
    else waiting.delete(step);
    if (performance.now() >= end) return;
  }
}

function later(): void {
  frame = waiting.size ? requestAnimationFrame(() => { work([...waiting]); later(); }) : 0;
}

/* Calls step() until it returns false: as often as there is time for now, the rest in the next frames. Returns whether something is left. */
export function inFrames(step: () => boolean): boolean {
  if (frame) waiting.add(step); /* this frame's time is spoken for */
  else work([step]);
  if (!frame) later();
  return waiting.has(step);
}
