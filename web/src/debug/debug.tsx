/* The step debugger as a view: the code, a timeline over its steps, variables with what changed, output, evaluation, and back in time. */
import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { Button } from '../shared/button';
import { Dialog } from '../shared/dialog';
import { count, sentence } from '../shared/text';
import { type Moment, type Told } from './history';
import { type Stepped, stepped } from './open';
import { newSession, type Session } from './session';
import { Source } from './source';

const REASONS: Record<string, string> = { entry: 'Ready', breakpoint: 'Breakpoint', pause: 'Paused', exception: 'Exception', back: 'Back', step: 'Paused' };
const ENDS: Record<string, string> = { completed: 'The code ran to its end', cancelled: 'Stopped', timeout: 'Out of time', failed: 'The code failed' };

/* Where the execution is, in a sentence. */
function place(s: Session): string {
  const next = s.next.value, steps = s.steps.value.length;
  if (!s.now.value && next) return `Earlier moment, after ${s.position.value} of ${count(steps, 'step')}: line ${next.line} runs next`;
  if (s.state.value === 'starting') return 'Getting a sandbox ready';
  if (s.state.value === 'running') return 'Running';
  if (s.state.value === 'ended') return `${ENDS[s.outcome.value?.status ?? ''] ?? 'The execution has ended'}, after ${count(steps, 'step')}`;
  const pause = s.pause.value!, why = REASONS[pause.reason] ?? 'Paused';
  return pause.reason === 'exception' ? `Exception in line ${pause.line}` : `${why}: line ${pause.line} runs next`;
}

function about(value: Told): string {
  const shape = value.shape?.join(' × ');
  return [value.type, shape ?? (value.size !== undefined && value.type !== 'str' ? count(value.size, 'item') : '')].filter(Boolean).join(', ');
}

function VariablesView({ moment }: { moment: Moment }) {
  return (
    <section class="variables" aria-label="Variables" tabIndex={0}>
      <h3>Variables</h3>
      {moment.frames.every(f => !f.variables.size) && <p class="note">None yet.</p>}
      {moment.frames.map((frame, i) => !!frame.variables.size && (
        <>
          {moment.frames.length > 1 && <h4>{frame.name}</h4>}
          <table aria-label={`Variables of ${frame.name}`}>
            <colgroup><col class="names" /><col /></colgroup>
            <thead class="unseen"><tr><th scope="col">Name</th><th scope="col">Value</th></tr></thead>
            <tbody>
              {[...frame.variables].map(([name, value]) => {
                const changed = i === moment.changedIn && moment.changed.has(name);
                return (
                  <tr key={name} class={changed ? 'changed' : undefined}>
                    <th scope="row">{name}{changed && <small> changed</small>}</th>
                    <td><code>{String(value.repr)}</code><small>{about(value)}</small></td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </>
      ))}
    </section>
  );
}

function Evaluate({ session: s }: { session: Session }) {
  const text = useSignal(''), busy = useSignal(false), ready = s.state.value === 'paused' && s.now.value;
  const log = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => { log.current!.scrollTop = log.current!.scrollHeight; }, [s.evaluated.value]);
  const run = async (event: Event) => {
    event.preventDefault();
    const expression = text.value.trim();
    if (!expression || busy.value || !ready) return;
    busy.value = true;
    text.value = '';
    await s.evaluate(expression);
    busy.value = false;
  };
  return (
    <section class="evaluate" aria-label="Evaluate">
      <h3>Evaluate</h3>
      <div ref={log} role="log" aria-label="Evaluated" tabIndex={s.evaluated.value.length ? 0 : -1}>
        {s.evaluated.value.map(e => <p><code>{e.expression}</code> {e.error !== undefined ? <code class="bad">{e.error}</code> : <code>{String(e.value?.repr)}</code>}</p>)}
      </div>
      <form onSubmit={run}>
        <input aria-label="Expression or statement" placeholder={ready ? 'An expression, such as len(x)' : 'In a pause, at the end of the timeline'} value={text.value} disabled={!ready}
          autocomplete="off" autocapitalize="off" spellcheck={false} onInput={event => { text.value = event.currentTarget.value; }} />
        <Button type="submit" disabled={!ready || busy.value}>Evaluate</Button>
      </form>
    </section>
  );
}

function Output({ session: s }: { session: Session }) {
  const parts = s.moment.value.output, result = s.now.value ? s.outcome.value?.result : undefined;
  return (
    <section class="written" aria-label="Output">
      <h3>Output</h3>
      {parts.length ? <pre tabIndex={0}>{parts.map(p => (p.bad ? <span class="bad">{p.text}</span> : p.text))}</pre> : <p class="note">None yet.</p>}
      {result !== null && result !== undefined && <p class="note">Result: <code>{JSON.stringify(result)?.slice(0, 2000)}</code></p>}
    </section>
  );
}

/* A button that has nothing to do for a moment keeps the focus. */
function Act({ able, act, ...more }: { able: boolean; act: () => unknown; icon?: 'play' | 'stop'; class?: string; title?: string; children: string }) {
  return <Button aria-disabled={!able} onClick={() => { if (able) act(); }} {...more} />;
}

function Controls({ session: s }: { session: Session }) {
  const state = s.state.value, paused = state === 'paused', running = state === 'running', ended = state === 'ended';
  const back = paused && (!s.now.value || (s.pause.value?.step ?? 1) > 1);
  return (
    <div class="controls" role="group" aria-label="Steps">
      <Act class="main" able={paused} title="Run this line (F10)" act={() => s.command('next')}>Next</Act>
      <Act able={paused} title="Into the function that is called (F11)" act={() => s.command('step')}>Into</Act>
      <Act able={paused} title="To the caller (Shift+F11)" act={() => s.command('out')}>Out</Act>
      <Act icon={running ? undefined : 'play'} able={paused || running} title={running ? 'Stop at the next line (F8)' : 'To the next breakpoint (F8)'}
        act={() => s.command(running ? 'pause' : 'continue')}>{running ? 'Pause' : 'Continue'}</Act>
      <Act able={back} title={s.now.value ? 'One line back' : 'Back to the moment that is shown'} act={() => s.back()}>Back</Act>
      <Act icon={ended ? undefined : 'stop'} able={state !== 'starting'} act={() => (ended ? s.start() : s.command('stop'))}>{ended ? 'Start again' : 'Stop'}</Act>
    </div>
  );
}

export default function Debug({ of }: { of: Stepped }) {
  const s = useMemo(() => newSession(of), [of]), close = () => { stepped.value = null; };
  useEffect(() => {
    void s.start();
    return () => { void s.close(); };
  }, [s]);
  useEffect(() => {
    document.addEventListener('keydown', keys);
    return () => document.removeEventListener('keydown', keys);
  }, [s]);
  function keys(event: KeyboardEvent) {
    const words = { F8: s.state.value === 'running' ? 'pause' : 'continue', F10: 'next', F11: event.shiftKey ? 'out' : 'step' } as const;
    const word = words[event.key as keyof typeof words];
    if (!word) return;
    event.preventDefault();
    if (s.state.value === (word === 'pause' ? 'running' : 'paused')) void s.command(word);
  }
  const steps = s.steps.value.length, now = s.now.value, thrown = now ? s.pause.value?.exception?.message : undefined;
  const failed = now && s.state.value === 'ended' ? s.outcome.value?.error : null, wrong = s.problem.value ?? thrown ?? failed;
  const line = now && s.state.value === 'ended' ? (failed ? s.moment.value.last?.line ?? null : null) : s.state.value === 'running' && now ? null : s.next.value?.line ?? null;
  return (
    <Dialog id="debug" title="Step through" onClose={close} full>
      <div class="debug">
        <p class="lead">In a sandbox of its own with {of.thread ? "the thread's data, without its variables; the thread stays as it is." : 'the chosen data.'}</p>
        <Controls session={s} />
        <p class="place" role="status">{place(s)}</p>
        <label class="timeline"><span class="unseen">Timeline</span>
          <input type="range" min={0} max={steps} step={1} value={s.position.value} disabled={!steps} aria-valuetext={place(s)}
            onInput={event => { const to = event.currentTarget.valueAsNumber; s.chosen.value = to >= steps ? null : to; }} />
          <small>{s.position.value} of {count(steps, 'step')}</small>
        </label>
        {wrong && <div class="problem" role="alert"><span>{sentence(wrong)}</span></div>}
        <div class="panes">
          <Source code={of.code} line={line} failed={!!(thrown || failed)} past={!now} points={s.points.value} toggle={s.togglePoint} />
          <div class="aside">
            <VariablesView moment={s.moment.value} />
            <Evaluate session={s} />
            <Output session={s} />
          </div>
        </div>
        <Button class="quiet close" icon="close" aria-label="Close" onClick={close} />
      </div>
    </Dialog>
  );
}
