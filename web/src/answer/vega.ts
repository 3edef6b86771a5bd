/* Vega, loaded when the first chart is shown. Expressions are interpreted: the page's policy lets nobody compile code from text. */
import embed, { type Result } from 'vega-embed';
import { expressionInterpreter } from 'vega-interpreter';

type View = Result['view'];
export interface Drawn { png: (title: string) => Promise<Blob>; svg: (title: string) => Promise<string>; finish: () => void }

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function theme() {
  const soft = css('--soft'), line = css('--line'), font = css('--sans');
  return {
    font, background: 'transparent', view: { stroke: null },
    axis: { labelColor: soft, titleColor: soft, titleFontWeight: 500, titleFontSize: 12, labelFontSize: 12, gridColor: line, domainColor: line, tickColor: line, labelPadding: 6, titlePadding: 10 },
    axisX: { grid: false }, legend: { labelColor: soft, titleColor: soft, labelFontSize: 12, titleFontSize: 12, symbolType: 'circle' },
    bar: { fill: css('--s0') }, line: { stroke: css('--s0') }, area: { fill: css('--s0') }, point: { fill: css('--s0') }, arc: { stroke: css('--card'), strokeWidth: 1.5 },
    range: { category: [0, 1, 2, 3, 4, 5, 6, 7].map(i => css(`--s${i}`)) },
  };
}

/* Draws into a box of its own and shows that when it is whole, if it is still wanted. */
export async function draw(box: HTMLElement, spec: object, wanted: () => boolean): Promise<Drawn | null> {
  const own = document.createElement('div');
  const many = ((spec as { data?: { values?: unknown[] } }).data?.values?.length ?? 0) > 2000;
  const clean = JSON.parse(JSON.stringify(spec, (key, value) => (key === 'stroke' && value === 'var' ? undefined : value))) as object;
  const options = {
    actions: false, ast: true, expr: expressionInterpreter, renderer: many ? 'canvas' : 'svg', defaultStyle: false, config: theme() as never,
    tooltip: { disableDefaultStyle: true, theme: 'riddle' }, logLevel: 1,
    loader: { load: async () => { throw new Error('a chart loads nothing'); } } as never,
  } as const;
  const { finalize } = await embed(own, clean as never, options);
  if (!wanted()) {
    finalize();
    return null;
  }
  box.replaceChildren(own);
  /* A picture stands alone: it has its title, and a background that its colours can be read on. */
  const alone = async <T>(title: string, take: (view: View) => Promise<T>): Promise<T> => {
    const shown = { ...clean, background: css('--card'), padding: 16, title: { text: title, anchor: 'start', color: css('--ink'), fontSize: 15, offset: 14 } };
    const { view, finalize: end } = await embed(document.createElement('div'), shown as never, options);
    try {
      return await take(view);
    } finally {
      end();
    }
  };
  const png = (title: string) => alone(title, async view => {
    const canvas = await view.toCanvas(2) as HTMLCanvasElement;
    return new Promise<Blob>((done, failed) => canvas.toBlob(blob => (blob ? done(blob) : failed(new Error('no picture came')))));
  });
  return { png, svg: title => alone(title, view => view.toSVG()), finish: finalize };
}
