import type { Answer } from '../api/types';
import { group, plain, seconds } from '../shared/text';
import { CodeBlock } from './code';
import { ReadingText } from './reading-text';

/* How it was answered: as a sentence, as code, how long each part took, by which model at what cost. */
export function Ran({ answer, own }: { answer: Answer; own: boolean }) {
  const runs = answer.code_runs ?? [], t = answer.timings_ms ?? {}, usage = answer.usage;
  if (!runs.length) return null;
  const facts: [string, string][] = [];
  if (answer.reading) facts.push(['Read as', plain(answer.reading)]);
  if (t.exec_total) facts.push(['Running code', seconds(t.exec_total)]);
  if (t.openai_total) facts.push(['Model', seconds(t.openai_total)]);
  if (usage?.input_tokens || usage?.output_tokens) facts.push(['Tokens', `${group(String(usage.input_tokens ?? 0))} in, ${group(String(usage.output_tokens ?? 0))} out`]);
  if (usage?.cost_usd) facts.push(['Cost', `$${usage.cost_usd.toFixed(4)}`]);
  return (
    <details class="ran">
      <summary>{own ? 'What was run' : 'How this was answered'}{runs.length > 1 ? ` (${runs.length} steps)` : ''}</summary>
      {!!answer.understood?.length && (
        <ul class="meanings" aria-label="What words were understood as">
          {answer.understood.map(w => <li><q dir="auto">{w.text}</q> → <ReadingText text={w.is} /></li>)}
        </ul>
      )}
      {!!facts.length && <dl class="facts">{facts.map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}</dl>}
      {runs.map(run => (
        <CodeBlock code={run.code} language={run.language === 'python' ? 'python' : 'sql'} ms={run.exec_ms}
          failed={!!run.status && !['succeeded', 'ok'].includes(run.status)}
          output={run.language === 'python' && !own ? run.output : undefined} />
      ))}
      {answer.run_id && <p class="note">Kept as run <a href={`/runs/${encodeURIComponent(answer.run_id)}`} target="_blank" rel="noopener">{answer.run_id.slice(0, 8)}</a>.</p>}
    </details>
  );
}
