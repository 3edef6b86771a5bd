/* The threads of this person as the server lists them: the pinned ones, then all, newest first; or those whose titles hold a text. */
import { computed, signal } from '@preact/signals';
import { get, patch } from '../api/call';
import type { ListedThread, Threads } from '../api/types';
import { tell } from './follow';

export type Listed = ListedThread & { id: string };

const recent = signal<Listed[]>([]), pinned = signal<Listed[]>([]);
export const next = signal<string | null>(null);
export const search = signal('');
export const found = signal<Listed[] | null>(null); /* null: nothing is searched for */
export const threads = computed(() => [...pinned.value, ...recent.value.filter(t => !t.pinned)]);

const listed = (page: Threads) => page.order.map(id => ({ id, ...page.threads[id] }));
/* One that nobody wrote in yet is not worth a line. */
const used = (all: Listed[]) => all.filter(t => t.message_count > 0);

const AT_ONCE = 100, ENOUGH = 20, PAGES_MAX = 5;
let wanted = 0; /* so many were asked for by "Show older" */

export async function loadThreads(): Promise<void> {
  try {
    const [first, top] = await Promise.all([get('/threads', { limit: AT_ONCE }), get('/threads', { limit: AT_ONCE, pinned: 'true' })]);
    const enough = Math.max(ENOUGH, wanted);
    let some = used(listed(first)), more = first.next;
    for (let pages = 1; more && some.length < enough && pages < Math.max(PAGES_MAX, enough / AT_ONCE); pages++) { /* clients may make many threads that nobody writes in */
      const page = await get('/threads', { limit: AT_ONCE, cursor: more });
      some = [...some, ...used(listed(page))];
      more = page.next;
    }
    recent.value = some;
    pinned.value = used(listed(top));
    next.value = more;
  } catch { /* the page works without the list */ }
}

export async function loadMore(): Promise<void> {
  const page = await get('/threads', { limit: AT_ONCE, cursor: next.value }), known = new Set(recent.value.map(t => t.id));
  recent.value = [...recent.value, ...used(listed(page)).filter(t => !known.has(t.id))];
  next.value = page.next;
  wanted = recent.value.length;
}

/* The state of a thread's kernel, as an answer or an event told it. */
export function stateOf(id: string, state: Listed['sandbox_status']): void {
  for (const list of [recent, pinned, found] as const)
    if (list.value?.some(t => t.id === id && t.sandbox_status !== state)) list.value = list.value.map(t => (t.id === id ? { ...t, sandbox_status: state } : t));
}

/* What was typed last wins, whichever answer comes last. */
export async function searchThreads(text: string): Promise<void> {
  search.value = text;
  if (!text.trim()) {
    found.value = null;
    return;
  }
  const page = await get('/threads', { limit: AT_ONCE, search: text.trim() });
  if (search.value === text) found.value = used(listed(page));
}

/* A thread that was just begun, before the server lists it. */
export function touch(id: string, title: string): void {
  recent.value = [{ id, title, message_count: 1, sandbox_status: 'hot', cached: true, pinned: false, updated_at: new Date().toISOString() }, ...recent.value];
}

export function forget(id: string): void {
  for (const list of [recent, pinned]) list.value = list.value.filter(t => t.id !== id);
  if (found.value) found.value = found.value.filter(t => t.id !== id);
}

export async function change(id: string, edit: { title?: string; pinned?: boolean }): Promise<void> {
  await patch('/thread/{thread_id}', { thread_id: id }, edit);
  tell({ type: 'threads' });
  await loadThreads();
  if (found.value) await searchThreads(search.value);
}
