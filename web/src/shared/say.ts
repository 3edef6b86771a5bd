/* The notice at the composer, and what a screen reader is told. */
import { signal } from '@preact/signals';

export const notice = signal<string | null>(null);
export const said = signal('');

/* What an action could not do is told, not thrown. */
export async function guarded(act: () => unknown): Promise<void> {
  try {
    await act();
  } catch (error) {
    notice.value = (error as Error).message;
  }
}
