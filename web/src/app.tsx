/* The frame: threads at the side, the head with what is shown, the view itself, the composer. */
import { signal } from '@preact/signals';
import { lazy, Suspense } from 'preact/compat';
import { useEffect } from 'preact/hooks';
import { away } from './api/call';
import { chunk } from './api/chunk';
import { KeyDialog } from './api/key-dialog';
import { describing, Describe } from './data/describe';
import { panelOpen, PanelIfOpen, TableDialog } from './data/panel';
import { schema } from './data/schema';
import { sets } from './data/sets';
import { Start } from './data/start';
import { dropping, FileInput } from './data/upload';
import { stepped } from './debug/open';
import { go, route } from './route';
import { Button } from './shared/button';
import { Help, helping } from './shared/help';
import { Mark } from './shared/icon';
import { Menu } from './shared/menu';
import { said } from './shared/say';
import { Checkpoints } from './threads/checkpoints';
import { Composer } from './threads/composer';
import { Sidebar, threadItems } from './threads/sidebar';
import { stopTurn, thread, turns } from './threads/state';
import { threads } from './threads/list';

const threadView = chunk(() => import('./threads/thread-view'));
const ThreadView = lazy(threadView);
const Status = lazy(chunk(() => import('./status/status')));
const Debug = lazy(chunk(() => import('./debug/debug')));
const side = signal(false); /* the drawer of a narrow window */

function Head() {
  const here = thread.value, listed = here && threads.value.find(t => t.id === here.id), title = listed?.title;
  return (
    <header>
      <Button class="quiet only-narrow" icon="menu" aria-label="Show the threads" aria-expanded={side.value} onClick={() => { side.value = true; }} />
      {here ? <h1 dir="auto">{title || 'Thread'}</h1> : <h1 class="only-narrow brand"><Mark />Riddle</h1>}
      {here?.name && <p id="about" dir="auto">{here.name}</p>}
      <span class="gap" />
      {listed && <Menu label="Fork, save or delete this thread" items={threadItems(listed)} />}
      {schema.value && route.value.view !== 'status' && <Button id="show-data" class="quiet" icon="data" aria-expanded={panelOpen.value} onClick={() => { panelOpen.value = !panelOpen.value; }}>Data</Button>}
      <Button class="quiet not-narrow" icon="help" aria-label="Keyboard" title="Keyboard (?)" onClick={() => { helping.value = true; }} />
    </header>
  );
}

function shortcuts(event: KeyboardEvent) {
  const at = event.target as HTMLElement, writing = !!at.closest?.('input, textarea, select, [contenteditable], .editor');
  if (document.querySelector('dialog[open]')) return;
  if (event.key === 'Escape') {
    if (side.value) side.value = false; else if (panelOpen.value && window.innerWidth < 1100) panelOpen.value = false; else void stopTurn();
  } else if (event.altKey && event.code === 'KeyN') go({ view: 'start' });
  else if (event.altKey && event.code === 'KeyD') panelOpen.value = !panelOpen.value;
  else if (event.altKey && event.code === 'KeyT') {
    side.value = true;
    document.getElementById('find')?.focus();
  }
  else if (event.altKey && (event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
    const all = [...document.querySelectorAll<HTMLElement>('.turn')], top = document.querySelector('.scroller')!.getBoundingClientRect().top;
    const now = all.findIndex(t => t.getBoundingClientRect().bottom > top + 40), to = all[now + (event.key === 'ArrowUp' ? -1 : 1)];
    to?.scrollIntoView({ block: 'start' });
  } else if (!writing && event.key === '/') document.getElementById('question')?.focus();
  else if (!writing && event.key === '?') helping.value = true;
  else return;
  event.preventDefault();
}

export function App() {
  useEffect(() => { if (sets.value) setTimeout(threadView, 50); }, [!sets.value]); /* once data can be chosen: the first answer does not wait for it */
  useEffect(() => {
    document.addEventListener('keydown', shortcuts);
    return () => document.removeEventListener('keydown', shortcuts);
  }, []);
  const status = route.value.view === 'status', start = route.value.view === 'start' && !turns.value.length;
  return (
    <>
      <a class="skip" href="#question" onClick={event => { event.preventDefault(); document.getElementById('question')?.focus(); }}>Skip to the question</a>
      <div class={`frame ${side.value ? 'side-open' : ''}`}>
        <Sidebar close={() => { side.value = false; }} />
        <div class="veil" onClick={() => { side.value = false; }} />
        <div class="view">
          <Head />
          {away.value && <p id="away" role="status">The server can't be reached. Trying again…</p>}
          <div class="scroller" tabIndex={status ? 0 : undefined}>
            <main>{status ? <Suspense fallback={<p class="status">Asking the server</p>}><Status /></Suspense> : start ? <Start /> : <Suspense fallback={<p class="status">Opening the thread</p>}><ThreadView /></Suspense>}</main>
          </div>
          {!status && <Composer />}
        </div>
        {!status && <PanelIfOpen />}
      </div>
      <FileInput />
      {dropping.value && <div id="drop" aria-hidden="true"><p>Drop to ask about it</p></div>}
      <p id="said" class="unseen" aria-live="polite">{said.value}</p>
      {describing.value && <Describe schema={describing.value} />}
      <TableDialog />
      <Help />
      <Checkpoints />
      {stepped.value && <Suspense fallback={null}><Debug of={stepped.value} /></Suspense>}
      <KeyDialog />
    </>
  );
}
