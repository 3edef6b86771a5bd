/* Where a Markdown text may be cut, so that its parts can be made one by one. */

/* An item of a list; ITEM_MAX lines of one list are made at once. */
const ITEM = /^\s*([-*+•]|\d+[.)])\s/, ITEM_MAX = 60;

/*
 * Blocks end at blank lines outside of fences, unless a list goes on after it; a long list is cut before an item. References to link
 * definitions do not cross blocks; models write inline links.
 */
export function blocksOf(text: string): string[] {
  const blocks: string[] = [];
  let lines: string[] = [], fence: string | null = null, inList = false, blank = false;
  const cut = () => {
    blocks.push(lines.join('\n'));
    lines = [];
    inList = false;
  };
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(```+|~~~+)/.exec(line)?.[1], item = ITEM.test(line);
    if (blank && !fence && lines.length && line.trim() && !(inList && (item || /^\s{2,}/.test(line)))) cut();
    else if (inList && !fence && item && lines.length >= ITEM_MAX && !/^\s/.test(line)) cut();
    if (mark) fence = fence ? (line.trim().startsWith(fence) ? null : fence) : mark;
    if (!fence && item) inList = true;
    blank = !fence && !line.trim();
    lines.push(line);
  }
  if (lines.length) blocks.push(lines.join('\n'));
  return blocks;
}

/* Of a text that grows, only what comes after the last cut is looked at again. */
export class Splitter {
  private head = ''; /* the text of the blocks that have ended */
  private ended: string[] = [];

  blocksOf(text: string): string[] {
    if (!text.startsWith(this.head)) [this.head, this.ended] = ['', []];
    const rest = blocksOf(text.slice(this.head.length)), open = rest.pop();
    this.ended.push(...rest);
    for (const block of rest) this.head += `${block}\n`;
    return open === undefined ? [...this.ended] : [...this.ended, open];
  }
}

export interface LongTable { columns: string[]; types: string[]; rows: string[][] }

const LONG = 120; /* rows; as many as a DataTable lays out whole */

/* Cells of a line of a table. A bar after a backslash is no end of a cell. */
const cellsOf = (line: string) => line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '').split(/(?<!\\)\|/)
  .map(cell => cell.trim().replaceAll('\\|', '|').replace(/(\*\*|__|`)(.+?)\1/g, '$2'));
const isNumber = (cell: string) => /^[\ue000\ue001]*-?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?[\ue000\ue001]*$/.test(cell);

/* A block that is a table of many rows; null: it is something else. */
export function longTable(block: string): LongTable | null {
  const lines = block.split('\n').filter(line => line.trim());
  if (lines.length < LONG + 2 || !/^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[1]) || !lines.every(line => line.includes('|'))) return null;
  const columns = cellsOf(lines[0]), rows = lines.slice(2).map(line => columns.map((_name, i) => cellsOf(line)[i] ?? ''));
  if (cellsOf(lines[1]).length !== columns.length) return null;
  const types = columns.map((_name, i) => (rows.every(row => !row[i] || isNumber(row[i])) && rows.some(row => row[i]) ? 'NUMBER' : 'VARCHAR'));
  return { columns, types, rows };
}
