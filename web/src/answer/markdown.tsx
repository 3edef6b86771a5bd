/*
 * A model's words: Markdown in full, sanitised. HTML in them is shown as text, never taken as markup; what marked makes of the rest goes through
 * DOMPurify with a short list of elements; images are left to their alternative text, because they would be requests to elsewhere.
 * A long answer comes token by token, or all at once when a thread is opened. It is cut into blocks (blocks.ts), of which those that changed
 * are made anew, and no more in a frame than there is time for. A long table in it is a DataTable: only its rows in sight are made.
 */
import DOMPurify from 'dompurify';
import { Marked, type Tokens } from 'marked';
import { render } from 'preact';
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import type { Flag } from '../api/types';
import { type LongTable, longTable, Splitter } from './blocks';
import { inFrames } from './frames';
import { ownRows } from './rows';
import { DataTable } from './table';
import type { Value } from '../shared/text';

const escape = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

const marked = new Marked({ gfm: true, breaks: true }, {
  renderer: {
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escape(text),
    image: ({ text, title }: Tokens.Image) => escape(text || title || 'image'),
  },
});

const ALLOWED = {
  ALLOWED_TAGS: ['p', 'br', 'strong', 'em', 'del', 'code', 'pre', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'blockquote', 'hr', 'a',
    'table', 'thead', 'tbody', 'tr', 'th', 'td'],
  ALLOWED_ATTR: ['href', 'title', 'start', 'align'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  RETURN_DOM_FRAGMENT: true as const,
};

/* Stand around a flagged figure while marked reads the text. */
const OPEN = '\ue000', CLOSE = '\ue001', UNFOUNDED = 'This figure is in no result of this answer.';
const bare = (text: string) => text.replace(/[\ue000\ue001]/g, '');
const NONE: Flag[] = [];

/* Where the server's flags are in this text. Offsets count bytes of UTF-8. */
function marksIn(text: string, flagged: Flag[]): string {
  const clean = text.replace(/[\ue000\ue001]/g, '\ufffd');
  if (!flagged.length) return clean;
  const coded = new TextEncoder().encode(text), decoder = new TextDecoder();
  const places = flagged.map(f => {
    let at = decoder.decode(coded.subarray(0, f.offset)).length;
    if (!text.startsWith(f.text, at)) at = text.indexOf(f.text);
    return { from: at, to: at + f.text.length };
  }).filter(f => f.from >= 0).sort((a, b) => b.from - a.from);
  let out = clean, last = Infinity;
  for (const { from, to } of places)
    if (to <= last) {
      out = out.slice(0, from) + OPEN + out.slice(from, to) + CLOSE + out.slice(to);
      last = from;
    }
  return out;
}

/*
 * Parts of a text that are elements: flagged figures, words that are written from the right (a number behind one would be moved to its other
 * side), and dates, which are not broken at their hyphens.
 */
const RIGHT = '\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefc';
const PARTS = new RegExp(`(\ue000[^\ue001]*\ue001|[${RIGHT}](?:[${RIGHT}\\s'",.;:!?-]*[${RIGHT}])?|\\b\\d{4}-\\d\\d-\\d\\d\\b)`);

function element(part: string): Node {
  const node = document.createElement(part.startsWith(OPEN) ? 'mark' : /^\d/.test(part) ? 'span' : 'bdi');
  if (part.startsWith(OPEN)) node.title = UNFOUNDED;
  if (node.localName === 'span') node.className = 'unbroken';
  node.textContent = bare(part);
  return node;
}

/* Sentinels anywhere else go. */
function placeParts(root: ParentNode): void {
  for (const node of root.querySelectorAll('a'))
    for (const name of ['href', 'title']) {
      const value = node.getAttribute(name);
      if (value) node.setAttribute(name, value.replace(/[\ue000\ue001]|%EE%80%8[01]/gi, ''));
    }
  const walk = document.createTreeWalker(root as unknown as Node, NodeFilter.SHOW_TEXT), texts: Text[] = [];
  while (walk.nextNode()) if (PARTS.test(walk.currentNode.nodeValue!) || /[\ue000\ue001]/.test(walk.currentNode.nodeValue!)) texts.push(walk.currentNode as Text);
  for (const text of texts) text.replaceWith(...text.nodeValue!.split(PARTS).map((part, i) => (i % 2 ? element(part) : bare(part))));
}

function made(text: string): DocumentFragment {
  const fragment = DOMPurify.sanitize(marked.parse(text, { async: false }), ALLOWED);
  for (const link of fragment.querySelectorAll('a')) {
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
  }
  for (const table of fragment.querySelectorAll('table')) {
    const box = document.createElement('div');
    box.className = 'scroll';
    box.tabIndex = 0;
    box.role = 'region';
    box.ariaLabel = 'Table';
    table.replaceWith(box);
    box.append(table);
  }
  for (const pre of fragment.querySelectorAll('pre')) pre.tabIndex = 0;
  placeParts(fragment);
  return fragment;
}

/* What a written number is sorted by. */
const numberOf = (v: Value): Value => (typeof v === 'string' && /^-?\d[\d,]*(\.\d+)?$/.test(bare(v)) ? Number(bare(v).replaceAll(',', '')) : v);

/* A cell of a long table: no more of Markdown than its marks. */
const drawCell = (text: string) => text.split(/(\ue000[^\ue001]*\ue001)/).map(part => (part.startsWith(OPEN) ? <mark title={UNFOUNDED}>{bare(part)}</mark> : bare(part)));

function LongTableView({ table }: { table: LongTable }) {
  const rows = useMemo(() => ownRows(table.columns.map(bare), table.types, table.rows, numberOf), [table]);
  return <DataTable rows={rows} label="Table" draw={drawCell} />;
}

/* The blocks of one text in the document. */
class Blocks {
  private shown: string[] = [];
  private wanted: string[] = [];
  private next = 0;

  constructor(private readonly root: HTMLElement) {}

  /* Shows these instead: what there is time for now, the rest in the next frames. */
  show(wanted: string[]): void {
    this.wanted = wanted;
    for (this.next = 0; this.next < wanted.length && this.shown[this.next] === wanted[this.next];) this.next++;
    while (this.root.children.length > wanted.length) this.drop(this.root.lastElementChild!);
    this.shown.length = Math.min(this.shown.length, wanted.length);
    this.root.classList.toggle('long', wanted.length > 40);
    this.busy(inFrames(this.step));
  }

  private busy(yes: boolean): void {
    if (yes) this.root.setAttribute('aria-busy', 'true');
    else this.root.removeAttribute('aria-busy');
  }

  close(): void {
    this.wanted = [];
    for (const block of this.root.querySelectorAll('.tabled')) render(null, block);
  }

  /* Makes one block; false when all are there. */
  private step = (): boolean => {
    while (this.next < this.wanted.length && this.shown[this.next] === this.wanted[this.next]) this.next++;
    if (this.next >= this.wanted.length) {
      this.busy(false);
      return false;
    }
    const i = this.next++, block = this.root.children[i] as HTMLElement | undefined ?? this.root.appendChild(document.createElement('div'));
    this.put(block, this.wanted[i]);
    this.shown[i] = this.wanted[i];
    return true;
  };

  private put(block: HTMLElement, text: string): void {
    const table = longTable(text), tabled = block.classList.contains('tabled');
    if (tabled && !table) render(null, block);
    block.className = table ? 'block tabled' : 'block';
    if (table) {
      if (!tabled) block.replaceChildren();
      render(<LongTableView table={table} />, block);
    } else block.replaceChildren(made(text));
  }

  private drop(block: Element): void {
    if (block.classList.contains('tabled')) render(null, block);
    block.remove();
  }
}

export function Markdown({ text, flagged = NONE }: { text: string; flagged?: Flag[] }) {
  const root = useRef<HTMLDivElement>(null), splitter = useRef<Splitter>(null), blocks = useRef<Blocks>(null);
  useLayoutEffect(() => {
    splitter.current ??= new Splitter();
    blocks.current ??= new Blocks(root.current!);
    blocks.current.show(splitter.current.blocksOf(marksIn(text, flagged)));
  }, [text, flagged]);
  useLayoutEffect(() => () => blocks.current?.close(), []);
  return <div class="text" dir="auto" ref={root} />;
}
