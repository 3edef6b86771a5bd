import { useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { AnswerView, wordsOf } from '../answer/answer';
import { Figure } from '../answer/figure';
import { Markdown } from '../answer/markdown';
import { Button } from '../shared/button';
import { draft } from './composer-state';
import { post } from '../api/call';
import { guarded } from '../shared/say';
import { isCode, running, thread } from './state';
import type { Live, Turn } from './turn';

/* A line for input(). */
function Asked({ prompt }: { prompt: string }) {
  const line = useRef<HTMLInputElement>(null);
  useEffect(() => line.current?.focus(), []);
  const send = (event: SubmitEvent) => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget as HTMLFormElement).get('line') ?? '');
    void guarded(() => post('/thread/{thread_id}/input', { thread_id: thread.value!.id }, { text }));
  };
  return (
    <form class="asked-line" onSubmit={send}>
      <label>{prompt || 'The code waits for a line'} <input name="line" autocomplete="off" maxLength={65536} ref={line} /></label>
      <Button type="submit">Send</Button>
    </form>
  );
}

function LiveView({ live }: { live: Live }) {
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => { if (box.current) box.current.scrollTop = box.current.scrollHeight; }, [live.output]);
  return (
    <>
      {live.output && <pre class="live" aria-hidden="true" ref={box}>{live.output}</pre>}
      {live.images.map(image => <Figure output={image} />)}
      {live.prompt !== null && <Asked key={live.prompt} prompt={live.prompt} />}
      <p class="status">{live.status}{live.progress > 0 && <progress max={1} value={live.progress} aria-label={live.status} />}</p>
    </>
  );
}

export function TurnView({ turn }: { turn: Turn }) {
  const root = useRef<HTMLElement>(null), live = turn.live.value, answer = turn.answer.value;
  const words = live ? live.text : answer ? wordsOf(turn, answer) : '';
  /* The result of a turn of the history comes when it is in sight. */
  useEffect(() => {
    if (!turn.more) return undefined;
    const seen = new IntersectionObserver(entries => {
      if (!entries.some(e => e.isIntersecting)) return;
      seen.disconnect();
      void turn.more?.();
    }, { rootMargin: '600px' });
    seen.observe(root.current!);
    return () => seen.disconnect();
  }, [turn]);
  /* A long answer is shown from its beginning. */
  const was = useRef(!!live);
  useSignalEffect(() => {
    const now = !!turn.live.value;
    if (was.current && !now) requestAnimationFrame(() => {
      const main = root.current?.closest('.scroller');
      if (root.current && main && root.current.offsetHeight > main.clientHeight - 80) root.current.scrollIntoView({ block: 'start' });
    });
    was.current = now;
  });
  return (
    <article class="turn" ref={root}>
      <div class="asked">
        <p class={isCode(turn.shown) ? 'question code' : 'question'} dir="auto">{turn.shown}</p>
        {!running.value && turn.shown === turn.question && (
          <Button class="quiet" icon="pencil" aria-label="Edit and ask again" title="Edit and ask again" onClick={() => { draft.value = { text: turn.question, focus: true }; }} />
        )}
      </div>
      <div class="answer" aria-busy={live ? 'true' : undefined}>
        {words && <Markdown key="words" text={words} flagged={live ? undefined : answer?.flagged} />}
        {live ? <LiveView live={live} /> : answer && <AnswerView turn={turn} answer={answer} />}
      </div>
    </article>
  );
}
