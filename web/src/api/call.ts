/*
 * Requests to the server. Every path is checked against the OpenAPI description when the types are (tests/integration/test_page.py): the
 * page cannot call what the server does not have, nor read what it does not answer.
 */
import { signal } from '@preact/signals';
import type {
  DeleteParameters, DeletePath, GetAnswers, GetParameters, GetPath, PatchAnswers, PatchBodies, PatchParameters, PatchPath, PostAnswers, PostBodies, PostParameters, PostPath,
} from 'riddle-openapi';
import { keep, kept } from '../shared/keep';
import { sentence } from '../shared/text';

export class Problem extends Error {
  constructor(message: string, readonly status = 0, readonly files?: string) { super(message); }
}

/* Integers past 2^53 stay exact, as text. */
type Source = { source?: string };
export const exact = (_key: string, value: unknown, context?: Source) =>
  typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '')
    ? context!.source : value;
export const parse = <T>(text: string): T => JSON.parse(text, exact as (key: string, value: unknown) => unknown) as T;

/* The dialog that asks for a key is open while this is a function, which takes the key. */
export const keyWanted = signal<((key: string) => void) | null>(null);
let keyAsked: Promise<void> | null = null;
export function askKey(): Promise<void> {
  keyAsked ??= new Promise(resolve => {
    keyWanted.value = key => {
      keep('sessionStorage', 'key', key.trim());
      keyWanted.value = null;
      keyAsked = null;
      resolve();
    };
  });
  return keyAsked;
}
export const key = () => kept<string>('sessionStorage', 'key');

export function problem(status: number, body: string, retryAfter: string | null): Problem {
  let text: unknown, files: string | undefined;
  try {
    const json = JSON.parse(body);
    files = json.detail?.errors?.map((e: { filename: string; error: string }) => `${e.filename}: ${e.error}`).join('\n');
    text = json.error?.message || json.detail;
  } catch { /* not ours: a proxy's page, perhaps */ }
  if (status === 429) text = `Too many requests. Try again in ${retryAfter || 'a few'} seconds.`;
  return new Problem(sentence(String(text || `The server answered with status ${status}.`)), status, files);
}

/* The server cannot be reached. It is asked again and again, until it answers. */
export const away = signal(false);
const SOON_MS = 500, SELDOM_MS = 5000;
let returned: Promise<void> | null = null;
export function untilReturned(): Promise<void> {
  away.value = true;
  returned ??= (async () => {
    for (let ms = SOON_MS; ; ms = Math.min(ms * 1.5, SELDOM_MS)) {
      await new Promise(done => setTimeout(done, ms));
      try {
        await fetch('/healthz', { cache: 'no-store' });
        break;
      } catch { /* not yet */ }
    }
    returned = null;
    away.value = false;
  })();
  return returned;
}

/* What only reads waits for a server that is away; nothing else is sent twice. */
export async function call(path: string, options: RequestInit = {}): Promise<Response> {
  for (;;) {
    const own = key();
    let answer: Response;
    try {
      answer = await fetch(path, { ...options, headers: { ...options.headers, ...(own && { Authorization: `Bearer ${own}` }) } });
    } catch (error) {
      if ((error as Error).name === 'AbortError') throw error;
      const back = untilReturned();
      if (options.method && options.method !== 'GET') throw new Problem("The server can't be reached. Is it still running?");
      await back;
      options.signal?.throwIfAborted();
      continue;
    }
    if (answer.status === 401) await askKey();
    else if (!answer.ok) throw problem(answer.status, await answer.text(), answer.headers.get('Retry-After'));
    else return answer;
  }
}

export type Params = Record<string, string | number | null | undefined>;

/* "/thread/{thread_id}/stop" with its parameters; the others become the query. */
export function address(path: string, params: Params = {}): string {
  const rest = { ...params };
  const filled = path.replace(/\{(\w+)\}/g, (_all, name: string) => {
    const value = rest[name];
    delete rest[name];
    return encodeURIComponent(String(value));
  });
  const query = new URLSearchParams(Object.entries(rest).filter(([, v]) => v !== undefined && v !== null).map(([k, v]) => [k, String(v)]));
  return query.size ? `${filled}?${query}` : filled;
}

const json = (method: string, body: unknown): RequestInit =>
  ({ method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });

/* The parameters that a path has, and the body that it takes, as the description has them. */
type Of<Names extends string> = { [name in Names]?: Params[string] };
type Body<Bodies, P> = P extends keyof Bodies ? Bodies[P] : Record<string, never>;

export const fetched = <P extends GetPath>(path: P, params?: Of<GetParameters[P]>, options?: RequestInit) => call(address(path, params), options);
/* What a path answers, as the description has it. */
type Made<Answers, P> = P extends keyof Answers ? Answers[P] : never;
const body = async <T>(answer: Promise<Response>) => parse<T>(await (await answer).text());

export const get = <P extends GetPath>(path: P, params?: Of<GetParameters[P]>, options?: RequestInit) =>
  body<Made<GetAnswers, P>>(fetched(path, params, options));
export const post = <P extends PostPath>(path: P, params: Of<PostParameters[P]>, sent: Body<PostBodies, P>, options?: RequestInit) =>
  call(address(path, params), { ...json('POST', sent), ...options });
export const posted = <P extends PostPath>(path: P, params: Of<PostParameters[P]>, sent: Body<PostBodies, P>, options?: RequestInit) =>
  body<Made<PostAnswers, P>>(post(path, params, sent, options));
export const patch = <P extends PatchPath>(path: P, params: Of<PatchParameters[P]>, sent: Body<PatchBodies, P>) =>
  body<Made<PatchAnswers, P>>(call(address(path, params), json('PATCH', sent)));
export const remove = <P extends DeletePath>(path: P, params: Of<DeleteParameters[P]>) => call(address(path, params), { method: 'DELETE' });
