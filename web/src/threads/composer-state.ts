/* What is in the composer, for those who put something there. */
import { signal } from '@preact/signals';

export const draft = signal<{ text: string; focus: boolean; add?: boolean } | null>(null);
export type Mode = 'question' | 'sql' | 'python';
export const mode = signal<Mode>('question');
