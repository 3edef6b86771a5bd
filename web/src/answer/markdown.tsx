/*
 * A model's words: Markdown in full, sanitised. HTML in them is shown as text, never taken as markup; what marked makes of the rest goes through
 * DOMPurify with a short list of elements; images are left to their alternative text, because they would be requests to elsewhere.
 * A long answer comes token by token, so it is cut into blocks and only the last one is made anew.
 */
import DOMPurify from 'dompurify';
import { Marked, type Tokens } from 'marked';
import { memo } from 'preact/compat';
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import type { Flag } from '../api/types';

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
const OPEN = '\ue000', CLOSE = '\ue001';

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

/* Sentinels in text nodes become marks; anywhere else they go. */
function placeMarks(root: ParentNode): void {
  for (const node of root.querySelectorAll('a'))
    for (const name of ['href', 'title']) {
      const value = node.getAttribute(name);
      if (value) node.setAttribute(name, value.replace(/[\ue000\ue001]|%EE%80%8[01]/gi, ''));
    }
  const walk = document.createTreeWalker(root as unknown as Node, NodeFilter.SHOW_TEXT), texts: Text[] = [];
  while (walk.nextNode()) if (/[\ue000\ue001]/.test(walk.currentNode.nodeValue!)) texts.push(walk.currentNode as Text);
  for (const text of texts) {
    const parts = text.nodeValue!.split(/(\ue000[^\ue001]*\ue001)/).map(part => {
      const bare = part.replace(/[\ue000\ue001]/g, '');
      if (!part.startsWith(OPEN)) return bare;
      const mark = document.createElement('mark');
      mark.title = 'This figure is in no result of this answer.';
      mark.textContent = bare;
      return mark;
    });
    text.replaceWith(...parts);
  }
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
  placeMarks(fragment);
  return fragment;
}

/* Blocks are made once: the whole answer takes the place of what was streamed, with the same blocks. */
const known = new Map<string, DocumentFragment>(), KNOWN_MAX = 3000;

function block(text: string): Node {
  let found = known.get(text);
  if (!found) {
    found = made(text);
    known.set(text, found);
    if (known.size > KNOWN_MAX) known.delete(known.keys().next().value!);
  }
  return found.cloneNode(true);
}

const Block = memo(function Block({ text }: { text: string }) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => { ref.current!.replaceChildren(block(text)); }, [text]);
  return <div class="block" ref={ref} />;
});

/*
 * Blocks end at blank lines outside of fences, unless a list goes on after it. References to link definitions do not cross blocks;
 * models write inline links.
 */
export function blocksOf(text: string): string[] {
  const blocks: string[] = [];
  let lines: string[] = [], fence: string | null = null, inList = false, blank = false;
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(```+|~~~+)/.exec(line)?.[1];
    const item = /^\s*([-*+•]|\d+[.)])\s/.test(line);
    if (blank && !fence && lines.length && line.trim() && !(inList && (item || /^\s{2,}/.test(line)))) {
      blocks.push(lines.join('\n'));
      lines = [];
      inList = false;
    }
    if (mark) fence = fence ? (line.trim().startsWith(fence) ? null : fence) : mark;
    if (!fence && item) inList = true;
    blank = !fence && !line.trim();
    lines.push(line);
  }
  if (lines.length) blocks.push(lines.join('\n'));
  return blocks;
}

export function Markdown({ text, flagged = [] }: { text: string; flagged?: Flag[] }) {
  const blocks = useMemo(() => blocksOf(marksIn(text, flagged)), [text, flagged]);
  return <div class={blocks.length > 40 ? 'text long' : 'text'} dir="auto">{blocks.map((block, i) => <Block key={i} text={block} />)}</div>;
}
