/* Which code is stepped through. The view itself is a chunk of its own, loaded when it is first wanted. */
import { signal } from '@preact/signals';

export interface Stepped { code: string; thread?: string; datasets: string[] }

export const stepped = signal<Stepped | null>(null);
