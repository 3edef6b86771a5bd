/* Branching a thread, and its checkpoints: what its variables can be set back to. */
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { get, post, posted, remove } from '../api/call';
import type { Checkpoint } from '../api/types';
import { go } from '../route';
import { Button } from '../shared/button';
import { Dialog } from '../shared/dialog';
import { notice, said } from '../shared/say';
import { ago, bytes, count } from '../shared/text';
import { tell } from './follow';
import { change, loadThreads } from './list';

export const showing = signal<string | null>(null); /* the thread whose checkpoints are shown */

const when = (c: Checkpoint) => (ago(c.created_at) === 'now' ? 'just now' : `${ago(c.created_at)} ago`);
const nameOf = (c: Checkpoint) => c.name || `After ${count(c.message_count, 'message')}`;

export async function forkThread(id: string, title: string | null | undefined): Promise<void> {
  const fork = await posted('/thread/{thread_id}/fork', { thread_id: id }, {});
  if (title) await change(fork.thread_id, { title: `${title.slice(0, 190)} (fork)` });
  tell({ type: 'threads' });
  await loadThreads();
  go({ view: 'thread', id: fork.thread_id });
  said.value = 'This is the fork';
  notice.value = fork.not_kept ? `The fork has the questions and the data, but no variables: ${fork.not_kept}.` : null;
}

/* Every action ends with the list as the server has it, or with why it could not be done. */
export function Checkpoints() {
  const id = showing.value, [list, setList] = useState<Checkpoint[] | null>(null), [name, setName] = useState(''), [problem, setProblem] = useState(''), [done, setDone] = useState(''), [busy, setBusy] = useState(false);
  const load = async () => setList((await get('/thread/{thread_id}/checkpoints', { thread_id: id })).checkpoints);
  const attempt = async (act: () => Promise<unknown>) => {
    setBusy(true);
    setProblem('');
    setDone('');
    try {
      await act();
    } catch (error) {
      setProblem((error as Error).message);
    }
    setBusy(false);
  };
  useEffect(() => {
    setList(null);
    setName('');
    if (id) void attempt(load);
  }, [id]);
  if (!id) return null;
  const close = () => { showing.value = null; };
  const keepOne = () => attempt(async () => {
    await post('/thread/{thread_id}/checkpoint', { thread_id: id }, { name: name.trim() || null });
    setName('');
    await load();
  });
  const goBack = (c: Checkpoint) => attempt(async () => {
    const back = await posted('/thread/{thread_id}/rollback', { thread_id: id }, { checkpoint: c.checkpoint_id });
    setDone(`Variables are as they were at “${nameOf(c)}”.${back.messages_after ? ` The ${count(back.messages_after, 'later message')} can still be read.` : ''}`);
  });
  const drop = (c: Checkpoint) => attempt(async () => {
    await remove('/thread/{thread_id}/checkpoints/{checkpoint_id}', { thread_id: id, checkpoint_id: c.checkpoint_id });
    await load();
  });
  return (
    <Dialog id="checkpoints" title="Checkpoints" onClose={close}>
      <p>A checkpoint keeps the variables and files of this thread's code. Rolling back sets them to what they were; questions and answers stay.</p>
      <form class="keep" onSubmit={event => { event.preventDefault(); void keepOne(); }}>
        <input aria-label="Name of the checkpoint" placeholder="Name, if you like" maxLength={200} value={name} onInput={event => setName(event.currentTarget.value)} />
        <Button type="submit" class="main" icon="plus" disabled={busy}>Keep</Button>
      </form>
      {done && <p class="done" role="status" dir="auto">{done}</p>}
      {problem && <p class="problem" role="alert">{problem}</p>}
      {list && !list.length && <p class="empty">There is none yet.</p>}
      {!!list?.length && (
        <ul class="kept">{[...list].reverse().map(c => (
          <li key={c.checkpoint_id}>
            <span dir="auto">{nameOf(c)}<small>{when(c)} · {bytes(c.bytes)}</small></span>
            <Button disabled={busy} onClick={() => goBack(c)}>Roll back</Button>
            <Button class="quiet" icon="trash" disabled={busy} aria-label={`Delete ${nameOf(c)}`} onClick={() => drop(c)} />
          </li>))}
        </ul>)}
      <div class="actions"><Button onClick={close}>Close</Button></div>
    </Dialog>
  );
}
