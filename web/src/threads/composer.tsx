/* Where questions are written: three modes, recall by the arrow keys, names of columns completed by Tab. */
import { useComputed, useSignal, useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { columnsByTable, prompts } from '../data/schema';
import { chosen, nameOf } from '../data/sets';
import { chooseFiles, uploading, UploadProgress } from '../data/upload';
import { stepped } from '../debug/open';
import { route } from '../route';
import { Button } from '../shared/button';
import { notice } from '../shared/say';
import { Icon } from '../shared/icon';
import { draft, type Mode, mode } from './composer-state';
import { ask, running, stopTurn, thread, turns } from './state';

const MODES: { id: Mode; name: string }[] = [{ id: 'question', name: 'Question' }, { id: 'sql', name: 'SQL' }, { id: 'python', name: 'Python' }];

/* Not where that would open a keyboard over the page. */
export function focusQuestion() {
  if (!window.matchMedia('(pointer: coarse)').matches) document.getElementById('question')?.focus();
}

function split(text: string): { mode: Mode; text: string } {
  const code = /^\s*(sql|python):\s*/i.exec(text);
  return code ? { mode: code[1].toLowerCase() as Mode, text: text.slice(code[0].length) } : { mode: 'question', text };
}

export function Composer() {
  const area = useRef<HTMLTextAreaElement>(null), text = useSignal(''), recall = useSignal(0), offered = useSignal<string[]>([]), picked = useSignal(0);
  const names = useComputed(() => [...new Set(Object.entries(columnsByTable.value).flatMap(([table, columns]) => [table, ...columns]))]);
  const fit = () => {
    const box = area.current!;
    box.style.height = 'auto';
    box.style.height = `${box.scrollHeight + 1}px`;
  };
  const put = (value: string) => {
    text.value = value;
    area.current!.value = value;
    fit();
  };

  useSignalEffect(() => {
    const wanted = draft.value;
    if (!wanted) return;
    draft.value = null;
    if (wanted.add) put(`${text.peek()}${text.peek() && !/\s$/.test(text.peek()) ? ' ' : ''}${wanted.text}`);
    else {
      const parts = split(wanted.text);
      mode.value = parts.mode;
      put(mode.value === 'question' ? wanted.text : parts.text);
    }
    if (wanted.focus) area.current!.focus();
  });
  useSignalEffect(() => { void mode.value, void thread.value; if (area.current) requestAnimationFrame(() => area.current && fit()); });
  const at = route.value.view === 'thread' ? route.value.id : 'start';
  useEffect(() => { focusQuestion(); recall.value = 0; }, [at]);

  function submit() {
    const value = text.value.trim();
    if (running.value || !value) return;
    put('');
    recall.value = 0;
    offered.value = [];
    void ask(mode.value === 'question' || /^\s*(sql|python|plan):/i.test(value) ? value : `${mode.value.toUpperCase()}: ${value}`);
  }

  const stepThrough = () => {
    const code = text.value.trim(), here = thread.value;
    if (code) stepped.value = { code, thread: here?.id, datasets: here ? (here.data ? [here.data] : []) : chosen.value };
  };

  /* The word before the caret. */
  const wordAt = () => /[\p{L}\p{N}_]+$/u.exec(area.current!.value.slice(0, area.current!.selectionStart))?.[0] ?? '';
  const offer = () => {
    const word = wordAt().toLowerCase();
    picked.value = 0;
    offered.value = word.length < 2 ? [] : names.peek().filter(n => n.toLowerCase().startsWith(word) && n.toLowerCase() !== word).slice(0, 5);
  };
  useSignalEffect(() => { if (names.value.length && document.activeElement === area.current) offer(); }); /* the names may come while one is written */
  function complete(name: string) {
    const box = area.current!, caret = box.selectionStart, from = caret - wordAt().length;
    put(box.value.slice(0, from) + name + box.value.slice(caret));
    box.selectionStart = box.selectionEnd = from + name.length;
    box.focus();
    offered.value = [];
  }

  function walk(step: number) {
    const asked = turns.value.map(t => t.question), to = Math.max(0, Math.min(asked.length, recall.value + step));
    recall.value = to;
    const parts = split(to ? asked[asked.length - to] : '');
    if (to) mode.value = parts.mode;
    put(parts.text);
  }

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      submit();
    } else if (event.key === 'Tab' && !event.shiftKey && offered.value.length) {
      event.preventDefault();
      complete(offered.value[picked.value]);
    } else if ((event.key === 'ArrowDown' || event.key === 'ArrowUp') && offered.value.length > 1 && !recall.value) {
      event.preventDefault();
      picked.value = (picked.value + (event.key === 'ArrowDown' ? 1 : offered.value.length - 1)) % offered.value.length;
    } else if (event.key === 'Escape' && offered.value.length) {
      event.stopPropagation();
      offered.value = [];
    } else if (event.key === 'ArrowUp' && (!text.value || recall.value)) {
      event.preventDefault();
      walk(1);
    } else if (event.key === 'ArrowDown' && recall.value) {
      event.preventDefault();
      walk(-1);
    }
  };

  const data = thread.value?.name || nameOf(chosen.value);
  const hint = mode.value === 'sql' ? 'SELECT …' : mode.value === 'python' ? 'Python: variables stay, tables are data frames'
    : thread.value ? 'Ask another question' : chosen.value.length ? `Ask about ${data.length > 40 ? `${data.slice(0, 38)}…` : data}` : 'Add a file, then ask about it';
  const start = route.value.view === 'start' && !turns.value.length;
  return (
    <footer>
      <UploadProgress />
      {notice.value && (
        <div id="notice" role="alert"><div class="problem"><span>{notice.value}</span><Button onClick={() => { notice.value = null; }}>Close</Button></div></div>
      )}
      {start && !text.value && !!prompts.value.length && (
        <div id="chips" class="chips" role="group" aria-label="Questions to try">{prompts.value.map(p => <Button onClick={() => ask(p)}>{p}</Button>)}</div>
      )}
      {!!offered.value.length && (
        <div id="offered" class="chips" role="group" aria-label="Names of columns (arrow keys choose, Tab takes)">
          {offered.value.map((n, i) => <Button tabIndex={-1} class={i === picked.value ? 'picked' : undefined} onClick={() => complete(n)}>{n}{i === picked.value && <kbd>Tab</kbd>}</Button>)}
        </div>
      )}
      <form id="ask" class={mode.value} onSubmit={event => { event.preventDefault(); submit(); }}>
        <label for="question" class="unseen">Your question</label>
        <textarea id="question" rows={1} maxLength={mode.value === "question" ? 4000 : 1000000} placeholder={hint} autocomplete="off" enterkeyhint="send" spellcheck={mode.value === 'question'}
          ref={area} dir="auto" onInput={event => { text.value = event.currentTarget.value; recall.value = 0; fit(); offer(); }} onKeyDown={onKeyDown} onBlur={() => setTimeout(() => { if (document.activeElement !== area.current) offered.value = []; }, 200)} />
        <div class="row">
          <Button class="quiet" icon="plus" aria-label="Add a file" title="Add a file" disabled={!!uploading.value} onClick={chooseFiles} />
          <div class="modes" role="group" aria-label="What you write">
            {MODES.map(m => <button type="button" aria-pressed={mode.value === m.id} onClick={() => { mode.value = m.id; area.current!.focus(); }}>{m.name}</button>)}
          </div>
          <span />
          {mode.value === 'python' && !running.value && <Button class="quiet" icon="steps" aria-label="Step through" title="Step through" disabled={!text.value.trim()} onClick={stepThrough} />}
          {running.value
            ? <Button id="stop" title="Stop (Esc)" onClick={stopTurn}><Icon name="stop" />Stop</Button>
            : <button type="submit" id="send" title="Ask (Enter)"><Icon name="send" />{mode.value === 'question' ? 'Ask' : 'Run'}</button>}
        </div>
      </form>
    </footer>
  );
}
