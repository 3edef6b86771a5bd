/* How the server is: what it tells by its health and its metrics. Asked again every few seconds while it is shown. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { fetched, get } from '../api/call';
import type { Check, Setting } from '../api/types';
import { guarded } from '../shared/say';
import { bytes, group, seconds, sentence } from '../shared/text';

interface Sample { labels: Record<string, string>; value: number }
type Metrics = Map<string, Sample[]>;

export function parseMetrics(text: string): Metrics {
  const out: Metrics = new Map();
  for (const line of text.split('\n')) {
    const m = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!m) continue;
    const labels = Object.fromEntries([...(m[2] ?? '').matchAll(/(\w+)="((?:\\.|[^"\\])*)"/g)].map(l => [l[1], l[2]]));
    if (!out.has(m[1])) out.set(m[1], []);
    out.get(m[1])!.push({ labels, value: Number(m[3]) });
  }
  return out;
}

/* The upper bound of the bucket that this share of a histogram lies in, over all its series. */
export function quantile(metrics: Metrics, name: string, share: number): number | null {
  const sums = new Map<number, number>();
  for (const { labels, value } of metrics.get(`${name}_bucket`) ?? []) {
    const le = labels.le === '+Inf' ? Infinity : Number(labels.le);
    sums.set(le, (sums.get(le) ?? 0) + value);
  }
  const edges = [...sums].sort((a, b) => a[0] - b[0]), all = edges[edges.length - 1]?.[1];
  return all ? edges.find(([, n]) => n >= share * all)![0] : null;
}

function Group({ title, items }: { title: string; items: [string, string, string?][] }) {
  if (!items.length) return null;
  return (
    <section class="panel">
      <h2>{title}</h2>
      <dl>{items.map(([name, value, note]) => <div><dt>{name}{note && <small>{note}</small>}</dt><dd>{value}</dd></div>)}</dl>
    </section>
  );
}

const shownSetting = (s: Setting) => (s.kind === 'text' || s.kind === 'secret' ? (s.is_set ? 'set' : 'not set')
  : s.kind === 'bytes' ? bytes(s.value as number) : s.kind === 'boolean' ? (s.value ? 'on' : 'off') : String(s.value));

/* What riddle doctor finds. What passed is a number until it is asked for. */
function Doctor() {
  const checks = useSignal<Check[] | null>(null), problem = useSignal<string | null>(null);
  useEffect(() => { get('/doctor').then(got => { checks.value = got.checks; }, error => { problem.value = (error as Error).message; }); }, []);
  const good = checks.value?.filter(c => c.status === 'pass') ?? [], others = checks.value?.filter(c => c.status !== 'pass') ?? [];
  return (
    <section class="doctor" aria-label="Checks of the machine">
      <h2>Checks of the machine</h2>
      {problem.value ? <p class="note">{problem.value}</p> : !checks.value && <p class="note">Checking…</p>}
      {!!others.length && <ul class="findings">{others.map(c => <li class={c.status}><b>{c.name}</b> {c.detail}{c.remedy && <small>{sentence(c.remedy)}</small>}</li>)}</ul>}
      {checks.value && <details><summary>{others.length ? `${good.length} others passed` : `All ${good.length} passed`}</summary><p class="note">{good.map(c => c.name).join(', ')}</p></details>}
    </section>
  );
}

/* Texts and secrets never leave the server: only whether they are set. */
function Settings({ all }: { all: Setting[] }) {
  const sections = [...new Set(all.map(s => s.section))];
  return (
    <details class="settings">
      <summary>Settings that are in force</summary>
      {sections.map(section => (
        <section class="panel"><h2>{section}</h2>
          <dl>{all.filter(s => s.section === section).map(s => <div><dt title={s.doc}>{s.name}<small>default: {s.default || 'none'}</small></dt><dd>{shownSetting(s)}</dd></div>)}</dl>
        </section>
      ))}
    </details>
  );
}

const number = (v: number) => group(String(Math.round(v * 100) / 100));

export default function Status() {
  const metrics = useSignal<Metrics | null>(null), health = useSignal<{ status: string; [key: string]: unknown } | null>(null), error = useSignal<string | null>(null);
  const settings = useSignal<Setting[]>([]), provider = settings.value.find(s => s.name === 'SANDBOX_PROVIDER')?.value;
  useEffect(() => { void guarded(async () => { settings.value = (await get('/settings')).settings; }); }, []);
  useEffect(() => {
    let gone = false, timer = 0;
    async function look() {
      try {
        const text = await (await fetched('/metrics')).text(), good = await fetch('/healthz');
        if (gone) return;
        metrics.value = parseMetrics(text);
        health.value = await good.json();
        error.value = null;
      } catch (problem) {
        if (!gone) error.value = (problem as Error).message;
      }
      if (!gone) timer = window.setTimeout(look, 4000);
    }
    void look();
    return () => { gone = true; clearTimeout(timer); };
  }, []);
  const m = metrics.value;
  const all = (name: string) => m?.get(name) ?? [];
  const one = (name: string) => all(name)[0]?.value;
  const by = (name: string, label: string): [string, string][] => all(name).map(s => [sentence((s.labels[label] ?? Object.values(s.labels)[0] ?? name).replaceAll('_', ' ')), number(s.value)]);
  const times = (name: string, title: string): [string, string, string?][] => {
    const half = m && quantile(m, name, 0.5), most = m && quantile(m, name, 0.99);
    if (half === null || most === null) return [];
    const shown = (v: number) => (v === Infinity ? 'over a minute' : `≤ ${seconds(v * 1000)}`);
    return [[title, `${shown(half)}`, 'median'], [title, `${shown(most)}`, '99th percentile']];
  };
  const value = (name: string, title: string, write = number): [string, string][] => (one(name) === undefined ? [] : [[title, write(one(name)!)]]);
  const happened = (items: [string, string][]) => items.filter(([name, v]) => v !== '0' || name === 'Ok');
  const good = health.value?.status === 'ok';
  return (
    <div id="status">
      <h1>Status</h1>
      {error.value && <p class="problem" role="alert">{error.value}</p>}
      {health.value && (
        <p class={`health ${good ? 'good' : 'bad'}`} role="status">
          <i aria-hidden="true" />{good ? 'Everything works: sandboxes and store answer.' : `Something is wrong. Sandboxes: ${health.value.sandbox}; store: ${health.value.store}.`}
        </p>
      )}
      {m && (
        <div class="panels">
          <Group title="Kernels" items={[...(provider ? [['Provider', String(provider)] as [string, string]] : []), ...by('riddle_kernels', 'state'), ...value('riddle_kernel_places', 'At most'), ...value('riddle_queue_depth', 'Runs waiting'), ...value('riddle_zygote_restarts_total', 'Fork servers restarted')]} />
          <Group title="Threads in memory" items={[...by('riddle_threads', 'state'), ...value('riddle_turns', 'Turns under way'), ...value('riddle_threads_evicted_total', 'Kernels evicted')]} />
          <Group title="Runs by verdict" items={[...happened(by('riddle_runs_total', 'verdict')), ...happened(value('riddle_runs_refused_total', 'Refused, queue full'))]} />
          <Group title="Turns by end" items={by('riddle_turns_total', 'status')} />
          <Group title="Latency" items={[...times('riddle_run_seconds', 'Runs'), ...times('riddle_http_request_seconds', 'Requests'), ...times('riddle_loop_lag_seconds', 'Event loop')]} />
          <Group title="Memory of kernels" items={all('riddle_kernel_memory_bytes').map(s => [s.labels.what === 'held' ? 'Reserved' : 'Budget', bytes(s.value)] as [string, string]).concat(value('riddle_images_bytes', 'Images of cold threads', bytes))} />
          <Group title="Connections" items={[...value('riddle_http_connections', 'Open'), ...value('riddle_http_requests_in_flight', 'Requests under way'), ...value('riddle_http_event_streams', 'Event streams')]} />
          <Group title="Model" items={!one('riddle_llm_calls_total') ? [] : [...value('riddle_llm_calls_total', 'Calls'), ...by('riddle_llm_tokens_total', 'kind').map(([n, v]) => [`Tokens, ${n.toLowerCase()}`, v] as [string, string]), ...value('riddle_llm_cost_usd_total', 'Cost', v => `$${v.toFixed(4)}`)]} />
        </div>
      )}
      <Doctor />
      <Settings all={settings.value} />
    </div>
  );
}
