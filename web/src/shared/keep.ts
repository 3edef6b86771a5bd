/* What the browser keeps for the page. It may refuse to keep anything: then a reload begins anew, and that is all. */
type Store = 'localStorage' | 'sessionStorage';

export function kept<T>(store: Store, key: string): T | null {
  try {
    return JSON.parse(window[store].getItem(`riddle.${key}`) ?? 'null') as T | null;
  } catch {
    return null;
  }
}

export function keep(store: Store, key: string, value: unknown): void {
  try {
    if (value === null) window[store].removeItem(`riddle.${key}`);
    else window[store].setItem(`riddle.${key}`, JSON.stringify(value));
  } catch { /* not kept */ }
}
