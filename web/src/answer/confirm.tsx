import { useSignal } from '@preact/signals';
import { post, remove } from '../api/call';
import { Button } from '../shared/button';
import { guarded } from '../shared/say';

/* Confirmed answers are used again for the same question, and as examples for alike ones. */
export function Confirm({ run, confirmed }: { run: string; confirmed: boolean }) {
  const done = useSignal(confirmed);
  const flip = () => guarded(async () => {
    if (done.value) await remove('/runs/{run_id}/verify', { run_id: run });
    else await post('/runs/{run_id}/verify', { run_id: run }, {});
    done.value = !done.value;
  });
  return (
    <Button class="quiet confirm" aria-pressed={done.value} onClick={flip}
      title="A confirmed answer is used again for the same question, and as an example for alike ones.">
      {done.value ? '✓ Confirmed' : 'Confirm this answer'}
    </Button>
  );
}
