import { parse } from './call';
import type { StreamEvent } from './types';

export type { StreamEvent };

const BUSY_MS = 8;
const pause = () => new Promise(done => setTimeout(done));

/* The events of a stream as they come; "type" is in the data as well. Thousands of them that come at once leave room for frames. */
export async function* events(answer: Response): AsyncGenerator<StreamEvent> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', began = performance.now();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    began = performance.now();
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop()!;
    for (const block of blocks) {
      const lines = block.split(/\r?\n/), data = lines.filter(l => l.startsWith('data:')).map(l => l.slice(5)).join('\n');
      const name = lines.find(l => l.startsWith('event:'))?.slice(6).trim();
      if (performance.now() - began > BUSY_MS) {
        await pause();
        began = performance.now();
      }
      if (data) {
        const event = parse<StreamEvent>(data);
        yield name ? { ...event, type: name } : event;
      }
    }
  }
}
