import { useSignal } from '@preact/signals';
import { follow, go, route } from '../route';
import { Button } from '../shared/button';
import { Icon, Mark } from '../shared/icon';
import { Menu } from '../shared/menu';
import { guarded } from '../shared/say';
import { ago } from '../shared/text';
import { type Listed, loadMore, next, threads } from './list';
import { deleteThread } from './state';

export const drawer = { open: null as null | (() => void) };

const STATES: Record<string, string> = { hot: 'awake: its variables are in memory', warm: 'frozen: it keeps its variables', cold: 'cold: its kernel starts when it is needed' };

function Line({ item, chosen }: { item: Listed; chosen: () => void }) {
  const here = route.value.view === 'thread' && route.value.id === item.id;
  return (
    <li class={here ? 'here' : undefined}>
      <a href={`/t/${encodeURIComponent(item.id)}`} aria-current={here ? 'page' : undefined}
        onClick={event => { follow({ view: 'thread', id: item.id })(event); chosen(); }}>
        <i class={`state ${item.sandbox_status}`} title={STATES[item.sandbox_status]} />
        <span dir="auto">{item.title || 'Untitled'}</span>
        <small>{ago(item.updated_at)}</small>
      </a>
      <Menu label={`Actions for ${item.title || 'this thread'}`} items={[
        { label: 'Delete', icon: 'trash', danger: true, act: () => window.confirm('Delete this thread with all its questions and answers?') && guarded(() => deleteThread(item.id)) }]} />
    </li>
  );
}

export function Sidebar({ close }: { close: () => void }) {
  const wanted = useSignal('');
  const found = threads.value.filter(t => (t.title ?? '').toLowerCase().includes(wanted.value.trim().toLowerCase()));
  return (
    <nav id="side" aria-label="Threads">
      <div class="brand">
        <a href="/" onClick={event => { follow({ view: 'start' })(event); close(); }}><Mark /><b>Riddle</b></a>
        <Button class="quiet only-narrow" icon="close" aria-label="Close the list" onClick={close} />
      </div>
      <Button id="new" icon="plus" onClick={() => { go({ view: 'start' }); close(); }}>New thread</Button>
      {threads.value.length > 5 && (
        <label class="find"><Icon name="search" /><span class="unseen">Find a thread</span>
          <input type="search" placeholder="Find a thread" value={wanted.value} onInput={event => { wanted.value = event.currentTarget.value; }} />
        </label>
      )}
      <ul id="threads">
        {found.map(item => <Line key={item.id} item={item} chosen={close} />)}
        {!threads.value.length && <li class="empty">Your threads will be listed here.</li>}
        {!!threads.value.length && !found.length && <li class="empty">No thread has this in its name.</li>}
        {next.value && <li><Button class="quiet" onClick={() => guarded(loadMore)}>Show older</Button></li>}
      </ul>
      <div class="links">
        <a href="/docs">API</a>
      </div>
    </nav>
  );
}
