import { parse } from './call';
const BUSY_MS = 8;
const pause = () => new Promise(done => setTimeout(done));

/* The events of a stream as they come; "type" is in the data as well. Thousands of them that come at once leave room for frames. */
export async function* events<T extends { type: string }>(answer: Response): AsyncGenerator<T> {
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
        const event = parse<T>(data);
        yield name ? { ...event, type: name } : event;
      }
    }
  }
}
