/* The code with the line that runs next, and breakpoints at its line numbers. */
import { type ComponentChildren, isValidElement, type VNode } from 'preact';
import { useSignal } from '@preact/signals';
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { coloured } from '../answer/colours';

/* Coloured parts may hold several lines. */
function linesOf(code: string): ComponentChildren[][] {
  const lines: ComponentChildren[][] = [[]];
  for (const part of coloured(code, 'python')) {
    const span = isValidElement(part) ? part as VNode<{ class: string; children: string }> : null, text = span ? span.props.children : part as string;
    text.split(/\r?\n/).forEach((piece, i) => {
      if (i) lines.push([]);
      if (piece) lines[lines.length - 1].push(span ? <span class={span.props.class}>{piece}</span> : piece);
    });
  }
  return lines;
}

interface Props { code: string; line: number | null; failed: boolean; past: boolean; points: Set<number>; toggle: (line: number) => void }

export function Source({ code, line, failed, past, points, toggle }: Props) {
  const box = useRef<HTMLOListElement>(null), at = useSignal(1), lines = useMemo(() => linesOf(code), [code]);
  useLayoutEffect(() => {
    const list = box.current!, shown = line ? list.children[line - 1] as HTMLElement | undefined : undefined;
    if (!shown) return;
    const from = shown.offsetTop - list.offsetTop, to = from + shown.offsetHeight, edge = 2 * shown.offsetHeight;
    if (from < list.scrollTop + edge) list.scrollTop = from - edge;
    else if (to > list.scrollTop + list.clientHeight - edge) list.scrollTop = to - list.clientHeight + edge;
  }, [line]);
  const keys = (event: KeyboardEvent) => {
    const to = { ArrowDown: at.value + 1, ArrowUp: at.value - 1, Home: 1, End: lines.length }[event.key];
    if (!to) return;
    event.preventDefault();
    at.value = Math.max(1, Math.min(lines.length, to));
    box.current!.children[at.value - 1].querySelector('button')!.focus();
  };
  return (
    <ol class="source" ref={box} aria-label="Code" onKeyDown={keys}>
      {lines.map((parts, i) => {
        const n = i + 1, here = n === line, point = points.has(n);
        return (
          <li class={`${here ? `here${failed ? ' failed' : ''}${past ? ' past' : ''}` : ''}${point ? ' point' : ''}`} aria-current={here ? 'step' : undefined}>
            <button type="button" tabIndex={n === Math.min(at.value, lines.length) ? 0 : -1} aria-pressed={point} aria-label={`Breakpoint at line ${n}`}
              title={point ? 'Remove the breakpoint' : 'Stop here'} onFocus={() => { at.value = n; }} onClick={() => toggle(n)}>{n}</button>
            <code>{parts}</code>
          </li>
        );
      })}
    </ol>
  );
}
