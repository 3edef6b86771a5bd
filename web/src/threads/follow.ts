/* Tabs of one browser tell each other what changed. */
export type News = { type: 'threads' } | { type: 'deleted'; thread: string } | { type: 'turn'; thread: string; ended: boolean };

const channel = 'BroadcastChannel' in window ? new BroadcastChannel('riddle') : null;

export const tell = (news: News) => channel?.postMessage(news);
export function heard(take: (news: News) => unknown): void {
  channel?.addEventListener('message', event => { void take(event.data as News); });
}
