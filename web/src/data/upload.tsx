/* Files from the person: chosen, dropped anywhere, or a table that is pasted. */
import { signal } from '@preact/signals';
import { askKey, fetched, get, key, posted, type Problem, problem, remove } from '../api/call';
import { events } from '../api/events';
import type { ReadingEvent, Report, Upload, UploadResponse } from '../api/types';
import { go } from '../route';
import { Button } from '../shared/button';
import { notice } from '../shared/say';
import { running, thread } from '../threads/state';
import { added } from './added';
import { refreshSchema } from './schema';
import { chosen, loadSets, unlisted } from './sets';

interface Uploading { text: string; part: number | null; cancel: () => void }

/* How the files of the last upload were read. A file without a table has no report. */
interface Read { id: string; name: string; tables: { table: string; report: Report }[] }
export const lastRead = signal<Read[]>([]);

function readOf({ file_id: id, filename: name, table, report, tables = [] }: Upload): Read {
  return { id, name, tables: [{ table, report }, ...tables].filter((t): t is Read['tables'][number] => !!t.table && !!t.report) };
}

/* After a file was read another way. */
export async function readAgain(id: string): Promise<void> {
  const [now] = await Promise.all([get('/uploads/{file_id}', { file_id: id }), refreshSchema(id), loadSets()]);
  lastRead.value = lastRead.peek().map(read => (read.id === id ? readOf(now) : read));
}

export const uploading = signal<Uploading | null>(null);

export function UploadProgress() {
  const now = uploading.value;
  if (!now) return added.value && thread.value ? <p id="added" class="note" role="status">{added.value}</p> : null;
  return (
    <div id="uploading" role="status">
      <span>{now.text}</span>
      <progress max={1} value={now.part ?? undefined} aria-label="Upload" />
      <Button class="quiet" onClick={now.cancel}>Cancel</Button>
    </div>
  );
}

class Cancelled extends Error {}

/* fetch() tells nothing about an upload's progress, so this is the older way. */
function send(files: File[], progress: (part: number) => void, cancelled: AbortSignal): Promise<UploadResponse> {
  return new Promise((resolve, reject) => {
    const form = new FormData(), request = new XMLHttpRequest(), own = key();
    for (const file of files) form.append('files', file);
    request.open('POST', '/upload?wait=false');
    if (own) request.setRequestHeader('Authorization', `Bearer ${own}`);
    request.upload.onprogress = event => { if (event.lengthComputable) progress(event.loaded / event.total); };
    request.onerror = () => reject(new Error('The upload was cut off. Is the server still running?'));
    request.onabort = () => reject(new Cancelled());
    request.onload = () => (request.status < 300 ? resolve(JSON.parse(request.responseText))
      : reject(problem(request.status, request.responseText, request.getResponseHeader('Retry-After'))));
    cancelled.addEventListener('abort', () => request.abort());
    request.send(form);
  });
}


/* Follows the reading of an upload to its end. */
async function reading(id: string, progress: (part: number | null) => void, cancelled: AbortSignal): Promise<Upload> {
  for await (const event of events<ReadingEvent>(await fetched('/uploads/{file_id}/events', { file_id: id }, { signal: cancelled })))
    if (event.type === 'status') progress(event.progress || null);
  return get('/uploads/{file_id}', { file_id: id });
}

export async function upload(list: Iterable<File>): Promise<void> {
  const files = [...list];
  if (!files.length || uploading.value) return;
  if (running.value) {
    notice.value = 'Wait for the answer, or stop it, before you add a file.';
    return;
  }
  const what = files.length === 1 ? files[0].name : `${files.length} files`, cancel = new AbortController();
  const show = (text: string, part: number | null) => { uploading.value = { text, part, cancel: () => cancel.abort() }; };
  notice.value = null;
  added.value = null;
  show(`Uploading ${what}`, 0);
  try {
    let answer: Awaited<ReturnType<typeof send>> | undefined;
    while (!answer)
      try {
        answer = await send(files, part => show(part < 1 ? `Uploading ${what}` : `Reading ${what}`, part < 1 ? part : null), cancel.signal);
      } catch (error) {
        if ((error as Problem).status !== 401) throw error;
        await askKey();
      }
    const ready: string[] = [], read: Read[] = [], wrong = (answer.errors || []).map(e => `${e.filename}: ${e.error}`);
    for (const file of answer.files) {
      const now = await reading(file.file_id, part => show(`Reading ${file.filename}`, part), cancel.signal).catch(async error => {
        if (cancel.signal.aborted) await Promise.allSettled(answer!.files.map(f => remove('/uploads/{file_id}', { file_id: f.file_id })));
        throw cancel.signal.aborted ? new Cancelled() : error;
      });
      if (now.error) {
        wrong.push(`${file.filename}: ${now.error}`);
        void remove('/uploads/{file_id}', { file_id: file.file_id }).catch(() => undefined); /* nothing can be asked about it */
      } else {
        ready.push(file.file_id);
        if (now.note) wrong.push(`${file.filename} has no table. ${now.note}`);
        read.push(readOf(now));
      }
    }
    const here = thread.value;
    if (ready.length && here) { /* the thread goes on, with more data */
      const { files: has } = await posted('/thread/{thread_id}/data', { thread_id: here.id }, { data: ready });
      const tables = has.filter(f => answer!.files.some(u => u.filename === f.name) && f.table).map(f => f.table);
      added.value = `${what} was added to this thread${tables.length ? `: ask about ${tables.join(', ')}` : ''}.`;
      await loadSets();
    } else if (ready.length) {
      unlisted.value = { ...unlisted.value, ...Object.fromEntries(read.map(r => [r.id, r.name])) };
      chosen.value = ready;
      go({ view: 'start' });
      await loadSets();
      lastRead.value = read;
      document.querySelector('.scroller')!.scrollTop = 0;
    }
    if (wrong.length) notice.value = wrong.join('\n');
  } catch (error) {
    if (!(error instanceof Cancelled)) notice.value = (error as Problem).files || `${what} was not taken. ${(error as Error).message}`;
  }
  uploading.value = null;
}

export const chooseFiles = () => document.getElementById('file')!.click();

export function FileInput() {
  return <input type="file" id="file" class="unseen" multiple tabIndex={-1} aria-label="Files to upload" accept=".csv,.tsv,.json,.ndjson,.jsonl,.geojson,.sql,.parquet,.xlsx,.xls,.ods,.db,.db3,.sqlite,.sqlite3,.duckdb,.gz,.zst,.zip,.txt,.tab,.psv,.dat,.log"
    onChange={event => { const input = event.currentTarget; void upload(input.files!).then(() => { input.value = ''; }); }} />;
}

export const dropping = signal(false);

/* Text with tabs or commas on most of its lines is a table. */
function tableIn(text: string): boolean {
  const lines = text.trim().split('\n');
  return lines.length >= 2 && lines.filter(l => l.includes('\t')).length >= 0.8 * lines.length;
}

export function watchFiles() {
  for (const type of ['dragenter', 'dragover', 'dragleave', 'drop'] as const)
    document.addEventListener(type, event => {
      if (!event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      dropping.value = !(type === 'drop' || (type === 'dragleave' && !event.relatedTarget));
      if (type === 'drop') void upload(event.dataTransfer.files);
    });
  document.addEventListener('paste', event => {
    const { clipboardData } = event, at = event.target as HTMLElement;
    if (!clipboardData || at.closest?.('dialog, .editor')) return;
    const text = clipboardData.getData('text/plain');
    if (clipboardData.files.length) {
      event.preventDefault();
      void upload(clipboardData.files);
    } else if (tableIn(text)) {
      event.preventDefault();
      void upload([new File([text], 'pasted.tsv', { type: 'text/tab-separated-values' })]);
    }
  });
}
