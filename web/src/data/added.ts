/* What was added to the thread that is shown, until the next question. */
import { signal } from '@preact/signals';

export const added = signal<string | null>(null);
