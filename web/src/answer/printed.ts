import type { Result } from '../api/types';
import { isFigure } from './figure';

/* What a cell said: its prints, and what it showed as text. */
export function printed(result: Result | null | undefined): string {
  const shown = (result?.outputs || []).filter(o => !isFigure(o) && o.text && !result!.columns?.length).map(o => o.text);
  return [result?.stdout, ...shown].filter(Boolean).join('\n').trimEnd().slice(0, 20000);
}
