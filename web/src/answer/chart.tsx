/*
 * A chart by Vega-Lite: the answer's own specification, with its data from the result. What the person switches (kind, axes, order, how rows are
 * put together) is a change of that specification. The library is loaded when the first chart is shown.
 */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { chunk } from '../api/chunk';
import type { Chart, Result } from '../api/types';
import { Button } from '../shared/button';
import { Menu } from '../shared/menu';
import { save } from '../shared/save';
import { sentence } from '../shared/text';
import { type Choice, choiceOf, human, KINDS, measured, MOST_BARS, recordsOf, seriesOf, specOf } from './spec';
import type { Drawn } from './vega';

const vega = chunk(() => import('./vega'));

const dark = () => window.matchMedia('(prefers-color-scheme: dark)');

export function ChartView({ chart, result }: { chart: Chart; result: Result }) {
  const box = useRef<HTMLDivElement>(null), drawn = useRef<Drawn | null>(null), error = useSignal<string | null>(null), open = useSignal(false);
  const asked = useMemo(() => choiceOf(chart, result), [chart, result]);
  const choice = useSignal<Choice | null>(null), now = choice.value ?? asked;
  const records = useMemo(() => recordsOf(result), [result]);

  useEffect(() => {
    let gone = false, width = 0, turn = 0;
    async function draw() {
      const mine = ++turn;
      try {
        const { draw: paint } = await vega();
        if (gone || mine !== turn || !box.current) return;
        const made = await paint(box.current, specOf(chart, now, choice.value !== null, records, result, width), () => !gone && mine === turn);
        if (!made) return;
        drawn.current?.finish();
        drawn.current = made;
        error.value = null;
      } catch (problem) {
        error.value = (problem as Error).message;
      }
    }
    const sized = new ResizeObserver(() => {
      const wide = Math.floor(box.current?.clientWidth ?? 0);
      if (!wide || wide === width) return;
      width = wide;
      void draw();
    });
    const scheme = dark(), again = () => void draw();
    sized.observe(box.current!);
    scheme.addEventListener('change', again);
    return () => {
      gone = true;
      sized.disconnect();
      scheme.removeEventListener('change', again);
    };
  }, [chart, result, now]);
  useEffect(() => () => { drawn.current?.finish(); }, []);

  if (!asked) return null;
  const set = (change: Partial<Choice>) => { choice.value = { ...now!, ...change }; };
  const pick = (label: string, key: 'x' | 'y' | 'series' | 'aggregate' | 'sort', options: [string, string][]) => (
    <label><span>{label}</span>
      <select value={now![key] ?? ''} onChange={event => set({ [key]: event.currentTarget.value || null } as Partial<Choice>)}>
        {options.map(([value, text]) => <option value={value}>{text}</option>)}
      </select>
    </label>
  );
  const columns = result.columns.map(c => [c, c] as [string, string]), numbers = columns.filter((_c, i) => asked.numeric[i]);
  const title = specTitle(chart, now!, choice.value !== null);
  const { kind, series } = now!, bars = kind === 'bar' ? new Set(records.map(r => r[now!.x])).size : 0;
  const all = series && kind !== 'arc' ? new Set(records.map(r => String(r[series]))).size : 0, few = all ? seriesOf(now!, records).length : 0;
  return (
    <figure class="chart">
      <figcaption dir="auto">{title}</figcaption>
      <div class="canvas" ref={box} />
      {error.value && <p class="note">This chart can't be drawn. {error.value}</p>}
      {bars > MOST_BARS && <p class="note">The first {MOST_BARS} of {bars}; the table has all.</p>}
      {few < all && <p class="note">The {few} largest of {all} by {human(series!)}; the table has all.</p>}
      <div class="bar">
        <div class="kinds" role="group" aria-label="Kind of chart">
          {KINDS.map(kind => <button type="button" aria-pressed={now!.kind === kind.mark} onClick={() => set({ kind: kind.mark })}>{kind.name}</button>)}
        </div>
        <span />
        <Button class="quiet" aria-expanded={open.value} onClick={() => { open.value = !open.value; }}>Adjust</Button>
        <Menu label="Save the chart" icon="down" items={[
          { label: 'PNG image', act: async () => save(await drawn.current!.png(title), 'chart.png') },
          { label: 'SVG drawing', act: async () => save(new Blob([await drawn.current!.svg(title)], { type: 'image/svg+xml' }), 'chart.svg') }]} />
      </div>
      {open.value && (
        <div class="adjust">
          {pick(kind === 'arc' ? 'Slices' : 'Across', 'x', columns)}
          {pick('Value', 'y', numbers)}
          {kind !== 'arc' && pick('Colour', 'series', [['', 'none'], ...columns])}
          {pick('Combine rows', 'aggregate', [['', 'as they are'], ['sum', 'total'], ['mean', 'average'], ['count', 'number of rows'], ['min', 'lowest'], ['max', 'highest']])}
          {kind !== 'arc' && pick('Order', 'sort', [['', 'as they come'], ['-y', 'largest first'], ['y', 'smallest first'], ['x', 'by name']])}
          {choice.value && <Button class="quiet" onClick={() => { choice.value = null; }}>Reset</Button>}
        </div>
      )}
    </figure>
  );
}

function specTitle(chart: Chart, choice: Choice, changed: boolean): string {
  if (!changed && !choice.aggregate && typeof chart.title === 'string') return chart.title;
  return sentence(`${measured(choice)} by ${human(choice.x)}${choice.series && choice.kind !== 'arc' ? ` and ${human(choice.series)}` : ''}`);
}
