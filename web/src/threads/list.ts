/* All threads of this person, newest first, as the server lists them. */
import { signal } from '@preact/signals';
import { get } from '../api/call';
import type { ThreadInfo } from '../api/types';

export interface Listed extends ThreadInfo { id: string }
interface Page { threads: Record<string, ThreadInfo>; order: string[]; next: string | null }

export const threads = signal<Listed[]>([]);
export const next = signal<string | null>(null);

const listed = (page: Page) => page.order.map(id => ({ id, ...page.threads[id] }));
/* One that nobody wrote in yet is not worth a line. */
const used = (all: Listed[]) => all.filter(t => t.message_count > 0);

const AT_ONCE = 100;

export async function loadThreads(): Promise<void> {
  try {
    const page = await get<Page>('/threads', { limit: AT_ONCE });
    threads.value = used(listed(page));
    next.value = page.next;
  } catch { /* the page works without the list */ }
}

export async function loadMore(): Promise<void> {
  const page = await get<Page>('/threads', { limit: AT_ONCE, cursor: next.value }), known = new Set(threads.value.map(t => t.id));
  threads.value = [...threads.value, ...used(listed(page)).filter(t => !known.has(t.id))];
  next.value = page.next;
}

/* A thread that was just begun, before the server lists it. */
export function touch(id: string, title: string): void {
  threads.value = [{ id, title, message_count: 1, sandbox_status: 'hot', updated_at: new Date().toISOString() }, ...threads.value];
}

export function forget(id: string): void {
  threads.value = threads.value.filter(t => t.id !== id);
}
