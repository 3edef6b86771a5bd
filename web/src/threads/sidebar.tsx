import { signal } from '@preact/signals';
import { follow, go, pathOf, route } from '../route';
import { Button } from '../shared/button';
import { Icon, Mark } from '../shared/icon';
import { type Item, Menu } from '../shared/menu';
import { guarded } from '../shared/say';
import { ago } from '../shared/text';
import { forkThread, showing } from './checkpoints';
import { exportItems } from './export';
import { change, found, type Listed, loadMore, next, search, searchThreads, threads } from './list';
import { deleteThread } from './state';

const STATES: Record<string, string> = { hot: 'awake: its variables are in memory', warm: 'frozen: it keeps its variables', cold: 'cold: its kernel starts when it is needed' };
const renaming = signal<string | null>(null);

function Rename({ item }: { item: Listed }) {
  const end = (title: string | null) => {
    if (renaming.value !== item.id) return;
    renaming.value = null;
    if (title?.trim() && title.trim() !== item.title) void guarded(() => change(item.id, { title: title.trim().slice(0, 200) }));
  };
  return (
    <li>
      <input aria-label="Name of the thread" maxLength={200} defaultValue={item.title ?? ''} ref={input => { if (input && document.activeElement !== input) { input.focus(); input.select(); } }}
        onKeyDown={event => {
          if (event.key === 'Enter') end(event.currentTarget.value);
          else if (event.key === 'Escape') { event.stopPropagation(); end(null); }
        }} onBlur={event => end(event.currentTarget.value)} />
    </li>
  );
}

/* What can be done with a thread, in the list and at its head. */
export const threadItems = (item: Listed): Item[] => [
  { label: item.pinned ? 'Unpin' : 'Pin', icon: 'pin', act: () => guarded(() => change(item.id, { pinned: !item.pinned })) },
  { label: 'Fork', icon: 'branch', act: () => guarded(() => forkThread(item.id, item.title)) },
  { label: 'Checkpoints', icon: 'flag', act: () => { showing.value = item.id; } },
  ...exportItems(item),
  { label: 'Delete', icon: 'trash', danger: true, act: () => window.confirm('Delete this thread with all its questions and answers?') && guarded(() => deleteThread(item.id)) },
];

function Line({ item, chosen }: { item: Listed; chosen: () => void }) {
  const here = route.value.view === 'thread' && route.value.id === item.id;
  if (renaming.value === item.id) return <Rename item={item} />;
  return (
    <li class={here ? 'here' : undefined}>
      <a href={pathOf({ view: 'thread', id: item.id })} aria-current={here ? 'page' : undefined}
        onClick={event => { follow({ view: 'thread', id: item.id })(event); chosen(); }}>
        <i class={`state ${item.sandbox_status}`} role="img" aria-label={item.sandbox_status} title={STATES[item.sandbox_status]} />
        <span dir="auto" title={item.title ?? undefined}>{item.title || 'Untitled'}</span>
        <small>{ago(item.updated_at)}</small>
      </a>
      <Menu label={`Actions for ${item.title || 'this thread'}`} items={[{ label: 'Rename', icon: 'pencil', act: () => { renaming.value = item.id; } }, ...threadItems(item)]} />
    </li>
  );
}

export function Sidebar({ close }: { close: () => void }) {
  const all = found.value ?? threads.value, pinned = found.value ? [] : all.filter(t => t.pinned), rest = found.value ?? all.filter(t => !t.pinned);
  const lines = (items: Listed[]) => items.map(item => <Line key={item.id} item={item} chosen={close} />);
  return (
    <nav id="side" aria-label="Threads">
      <div class="brand">
        <a href="/" onClick={event => { follow({ view: 'start' })(event); close(); }}><Mark /><b>Riddle</b></a>
        <Button class="quiet only-narrow" icon="close" aria-label="Close the list" onClick={close} />
      </div>
      <Button id="new" icon="plus" onClick={() => { go({ view: 'start' }); close(); }}>New thread</Button>
      <label class="find"><Icon name="search" /><span class="unseen">Find a thread</span>
        <input id="find" type="search" placeholder="Find a thread" value={search.value} maxLength={200} onInput={event => { const text = event.currentTarget.value; void guarded(() => searchThreads(text)); }} />
      </label>
      <div id="threads" tabIndex={-1}>
        {!!pinned.length && <><h2>Pinned</h2><ul>{lines(pinned)}</ul>{!!rest.length && <h2>Recent</h2>}</>}
        {!!rest.length && <ul>{lines(rest)}</ul>}
        {!all.length && <p class="empty">{found.value ? 'No thread has this in its name.' : 'Your threads will be listed here.'}</p>}
        {!found.value && next.value && <Button class="quiet" onClick={() => guarded(loadMore)}>Show older</Button>}
      </div>
      <div class="links">
        <a href="/ui/status" aria-current={route.value.view === 'status' ? 'page' : undefined} onClick={event => { follow({ view: 'status' })(event); close(); }}><Icon name="pulse" />Status</a>
        <a href="/docs"><Icon name="code" />API</a>
      </div>
    </nav>
  );
}
