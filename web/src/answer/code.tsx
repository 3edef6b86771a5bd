/* Code that was run: coloured, to copy, and to change and run again in the thread's own kernel. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { posted } from '../api/call';
import { chunk } from '../api/chunk';
import type { Executed } from '../api/types';
import { stepped } from '../debug/open';
import { Button, CopyButton } from '../shared/button';
import { seconds } from '../shared/text';
import { stateOf } from '../threads/list';
import { running, thread } from '../threads/state';
import { coloured, type Language } from './colours';
import type { Editor } from './editor';
import { Figure } from './figure';
import { ResultView } from './result';
import { printed } from './printed';

const loadEditor = chunk(() => import('./editor'));

interface Props { code: string; language: Language; output?: string; ms?: number; failed?: boolean }

export function CodeBlock({ code, language, output, ms, failed }: Props) {
  const editing = useSignal(false), again = useSignal<Executed | null>(null), busy = useSignal(false), error = useSignal<string | null>(null);
  const box = useRef<HTMLDivElement>(null), editor = useRef<Editor | null>(null), text = useRef(code);

  async function run() {
    if (busy.value || !thread.value) return;
    busy.value = true;
    error.value = null;
    try {
      again.value = await posted('/thread/{thread_id}/execute', { thread_id: thread.value.id }, { language, code: text.current });
      stateOf(thread.value.id, 'hot');
    } catch (problem) {
      error.value = (problem as Error).message;
    }
    busy.value = false;
  }

  useEffect(() => {
    if (!editing.value) return undefined;
    let gone = false;
    void loadEditor().then(({ edit }) => {
      if (gone || !box.current) return;
      editor.current = edit(box.current, text.current, language, { change: t => { text.current = t; }, run, leave: () => { editing.value = false; } });
    });
    return () => {
      gone = true;
      editor.current?.close();
      editor.current = null;
    };
  }, [editing.value]);

  const result = again.value?.result, wrong = error.value ?? (result?.error?.message || null);
  return (
    <div class="code-block">
      <p>
        <span>{language === 'python' ? 'Python' : 'SQL'}{ms !== undefined && ` · ${seconds(ms)}`}{failed && <b class="doubt"> failed</b>}</span>
        <CopyButton text={() => text.current} />
        {thread.value && language === 'python' && (
          <Button class="quiet" icon="steps" onClick={() => { stepped.value = { code: text.current, thread: thread.value!.id, datasets: thread.value!.data ? [thread.value!.data] : [] }; }}>Step through</Button>
        )}
        {thread.value && !editing.value && <Button class="quiet" icon="pencil" onClick={() => { editing.value = true; }}>Edit</Button>}
        {editing.value && <Button class="quiet" onClick={() => { text.current = code; editing.value = false; again.value = null; error.value = null; }}>Discard</Button>}
        {editing.value && <Button class="main small" icon="play" disabled={busy.value || !!running.value} title="Run (Ctrl+Enter)" onClick={run}>{busy.value ? 'Running' : 'Run'}</Button>}
      </p>
      {editing.value ? <div class="editor" ref={box} /> : <pre tabIndex={0}><code>{coloured(text.current, language)}</code></pre>}
      {output && !again.value && <pre tabIndex={0} class="said">{output}</pre>}
      {(again.value || wrong) && (
        <div class="again" aria-live="polite">
          {wrong && <div class="problem"><span>{wrong}</span></div>}
          {result && printed(result) && <pre tabIndex={0} class="output">{printed(result)}</pre>}
          {result && !!result.columns?.length && <ResultView result={result} run={again.value?.run_id} />}
          {(result?.outputs ?? []).map(o => <Figure output={o} />)}
        </div>
      )}
    </div>
  );
}
