import { parse } from './call';

export interface StreamEvent { type: string; [key: string]: any }

/* The events of a stream as they come; "type" is in the data as well. */
export async function* events(answer: Response): AsyncGenerator<StreamEvent> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop()!;
    for (const block of blocks) {
      const lines = block.split(/\r?\n/), data = lines.filter(l => l.startsWith('data:')).map(l => l.slice(5)).join('\n');
      const name = lines.find(l => l.startsWith('event:'))?.slice(6).trim();
      if (data) {
        const event = parse<StreamEvent>(data);
        yield name ? { ...event, type: name } : event;
      }
    }
  }
}
