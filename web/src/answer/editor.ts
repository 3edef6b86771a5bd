/*
 * CodeMirror, loaded when the first piece of code is edited. It lives in a shadow root, where its styles are adopted style sheets: the page's
 * policy lets nobody write style elements.
 */
import { autocompletion, closeBrackets, completionKeymap } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { python } from '@codemirror/lang-python';
import { sql } from '@codemirror/lang-sql';
import { bracketMatching, HighlightStyle, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { EditorState } from '@codemirror/state';
import { drawSelection, EditorView, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { columnsByTable } from '../data/schema';
import type { Language } from './colours';

export interface Editor { close: () => void }
interface Acts { change: (text: string) => void; run: () => unknown; leave: () => void }

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword], color: 'var(--t-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--t-string)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--t-digit)' },
  { tag: tags.comment, color: 'var(--t-comment)', fontStyle: 'italic' },
]);

const look = EditorView.theme({
  '&': { fontSize: '13px', backgroundColor: 'transparent', color: 'var(--ink)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-content': { fontFamily: 'var(--mono)', lineHeight: '1.6', padding: '10px 0', caretColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--soft)', border: 'none' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { background: 'var(--accent-wash)' },
  '.cm-scroller': { maxHeight: '24rem', overflow: 'auto' },
  '.cm-tooltip': { backgroundColor: 'var(--card)', border: '1px solid var(--line)', borderRadius: '8px', overflow: 'hidden' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent-wash)', color: 'var(--ink)' },
});

export function edit(box: HTMLElement, text: string, language: Language, acts: Acts): Editor {
  const shadow = box.shadowRoot ?? box.attachShadow({ mode: 'open' }), parent = document.createElement('div');
  shadow.replaceChildren(parent);
  const view = new EditorView({
    root: shadow, parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        keymap.of([{ key: 'Mod-Enter', preventDefault: true, run: () => { void acts.run(); return true; } },
          { key: 'Escape', run: () => { acts.leave(); return true; } }]),
        lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(), autocompletion(), indentUnit.of('    '),
        keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
        language === 'python' ? python() : sql({ schema: columnsByTable.value, upperCaseKeywords: true }),
        /* A browser that replaces a selection itself keeps its colours as inline style, which the policy refuses. */
        EditorView.domEventHandlers({ beforeinput(event, view) {
          if (event.inputType !== 'insertText' || !event.data || event.isComposing || view.state.selection.main.empty || /^["'([{]$/.test(event.data)) return false;
          event.preventDefault();
          view.dispatch(view.state.replaceSelection(event.data));
          return true;
        } }),
        syntaxHighlighting(colours), look,
        EditorView.contentAttributes.of({ 'aria-label': `${language === 'python' ? 'Python' : 'SQL'} to run` }),
        EditorView.updateListener.of(update => { if (update.docChanged) acts.change(update.state.doc.toString()); }),
      ],
    }),
  });
  view.focus();
  return { close: () => view.destroy() };
}
