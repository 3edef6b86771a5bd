import { useSignalEffect } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Button } from '../shared/button';
import { guarded } from '../shared/say';
import { earlier, loading, running, showEarlier, thread, turns } from './state';
import { TurnView } from './turn-view';

export default function ThreadView() {
  const root = useRef<HTMLDivElement>(null), near = useRef(true), opening = useRef(true), shown = useRef<string | undefined>(undefined);
  const scroller = () => root.current?.closest<HTMLElement>('.scroller');
  /* Stays at the end while an answer comes, if the reader is there, and while a thread that was opened takes its place. */
  useLayoutEffect(() => {
    const box = scroller()!;
    const note = () => { near.current = box.scrollHeight - box.scrollTop - box.clientHeight < 120; };
    const grown = new ResizeObserver(() => { if (near.current && (opening.current || running.peek())) box.scrollTop = box.scrollHeight; });
    const touched = () => { opening.current = false; }, acts = ['wheel', 'pointerdown', 'keydown'] as const;
    box.addEventListener('scroll', note, { passive: true });
    for (const act of acts) box.addEventListener(act, touched, { passive: true });
    grown.observe(root.current!);
    return () => {
      box.removeEventListener('scroll', note);
      for (const act of acts) box.removeEventListener(act, touched);
      grown.disconnect();
    };
  }, []);
  useSignalEffect(() => {
    if (running.value || thread.value) requestAnimationFrame(() => {
      opening.current = !running.peek() && shown.current !== thread.peek()?.id;
      shown.current = thread.peek()?.id;
      const box = scroller();
      if (box) box.scrollTop = box.scrollHeight;
      near.current = true;
    });
  });
  return (
    <div id="thread" ref={root} role="log" aria-label="Questions and answers">
      {loading.value && !turns.value.length && <p class="status">Opening the thread</p>}
      {earlier.value && <p class="earlier"><Button class="quiet" icon="up" onClick={() => guarded(showEarlier)}>Show what came before</Button></p>}
      {turns.value.map(turn => <TurnView key={turn.key} turn={turn} />)}
    </div>
  );
}
