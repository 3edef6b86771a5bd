/* Addresses: / is the start, /t/ID a thread, /ui/status the state of the server. Back and Forward walk through them. */
import { signal } from '@preact/signals';

export type Route = { view: 'start' } | { view: 'thread'; id: string } | { view: 'status' };

function read(): Route {
  const thread = /^\/t\/([^/]+)$/.exec(window.location.pathname), old = new URLSearchParams(window.location.search).get('thread');
  if (thread) return { view: 'thread', id: decodeURIComponent(thread[1]) };
  if (old) return { view: 'thread', id: old };
  return window.location.pathname === '/ui/status' ? { view: 'status' } : { view: 'start' };
}

export const pathOf = (to: Route) => (to.view === 'thread' ? `/t/${encodeURIComponent(to.id)}` : to.view === 'status' ? '/ui/status' : '/');
export const route = signal<Route>(read());

export function go(to: Route, replace = false): void {
  if (replace) window.history.replaceState(null, '', pathOf(to));
  else if (pathOf(to) !== window.location.pathname + window.location.search) window.history.pushState(null, '', pathOf(to));
  route.value = to;
}

/* A link that a click follows inside the page; with a key held it is the browser's. */
export const follow = (to: Route) => (event: MouseEvent) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(to);
};

window.addEventListener('popstate', () => { route.value = read(); });
