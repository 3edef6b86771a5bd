/* Colours for SQL and Python without an editor: comments, strings, numbers, keywords. What it does not know stays as it is. */
import type { JSX } from 'preact';

const WORDS = {
  sql: new Set(('select from where group by order limit offset having join left right full inner outer cross on using as and or not in is null like ilike between case when ' +
    'then else end distinct union all intersect except with recursive over partition rows range asc desc nulls first last true false cast exists values filter qualify').split(' ')),
  python: new Set(('False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass ' +
    'raise return try while with yield match case').split(' ')),
};

const PARTS = {
  sql: /(--[^\n]*|\/\*[\s\S]*?\*\/)|('(?:[^']|'')*'|"(?:[^"]|"")*")|(\b\d+(?:\.\d+)?\b)|([A-Za-z_]\w*)/g,
  python: /(#[^\n]*)|("""[\s\S]*?"""|'''[\s\S]*?'''|[rbfu]{0,2}"(?:\\.|[^"\\\n])*"|[rbfu]{0,2}'(?:\\.|[^'\\\n])*')|(\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)|([A-Za-z_]\w*)/gi,
};

const MOST = 60000; /* characters; longer code is shown plainly */

export type Language = 'sql' | 'python';

export function coloured(code: string, language: Language): (string | JSX.Element)[] {
  if (code.length > MOST) return [code];
  const out: (string | JSX.Element)[] = [];
  let at = 0;
  for (const m of code.matchAll(PARTS[language])) {
    const word = m[4], quoted = language === 'sql' && m[2]?.startsWith('"');
    const kind = m[1] ? 'comment' : m[2] ? (quoted ? null : 'string') : m[3] ? 'digit' : word && WORDS[language].has(language === 'sql' ? word.toLowerCase() : word) ? 'keyword' : null;
    if (!kind) continue;
    out.push(code.slice(at, m.index), <span class={`t-${kind}`}>{m[0]}</span>);
    at = m.index + m[0].length;
  }
  out.push(code.slice(at));
  return out;
}
