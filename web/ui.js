/*
 * The page: choose data, ask, watch the answer come, see what was run. One thread at a time; its id is in local storage, so a reload goes
 * on with it. Text from the server, a model or the data only ever becomes text nodes and attributes, never markup.
 */
'use strict';

const $ = id => document.getElementById(id);
const state = { sets: [], chosen: [], thread: null, turn: null };

function el(name, attributes, ...children) {
  const svg = ['svg', 'g', 'path', 'rect', 'circle', 'line', 'text', 'title'].includes(name);
  const node = svg ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (typeof value === 'function') node.addEventListener(key, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? '' : value);
  node.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
  return node;
}
const button = (label, onclick, className) => el('button', { type: 'button', class: className, click: onclick }, label);
const sentence = text => text.charAt(0).toUpperCase() + text.slice(1);
const wait = ms => new Promise(resolve => setTimeout(resolve, ms));

/* A browser may refuse to keep anything: then a reload begins anew, and that is all. */
function remember(store, key, value) {
  try {
    if (value === undefined) return JSON.parse(window[store].getItem(key));
    if (value === null) window[store].removeItem(key); else window[store].setItem(key, JSON.stringify(value));
  } catch { /* not kept */ }
  return null;
}

/* ---- the server ---- */

/* Integers past 2^53 stay exact, as text. */
const exact = (key, value, context) => typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) &&
  /^-?\d+$/.test(context?.source ?? '') ? context.source : value;

let keyAsked = null;
function askKey() {
  keyAsked ??= new Promise(resolve => {
    $('key').addEventListener('close', () => {
      remember('sessionStorage', 'riddle.key', $('key-value').value.trim());
      $('key-value').value = '';
      keyAsked = null;
      resolve();
    }, { once: true });
    $('key').showModal();
  });
  return keyAsked;
}
$('key').addEventListener('cancel', event => event.preventDefault());

function problem(status, body, retryAfter) {
  let said, files;
  try {
    const json = JSON.parse(body);
    files = json.detail?.errors?.map(e => `${e.filename}: ${e.error}`).join('\n');
    said = json.error?.message || json.detail;
  } catch { /* not ours: a proxy's page, perhaps */ }
  if (status === 429) said = `Too many requests. Try again in ${retryAfter || 'a few'} seconds.`;
  return Object.assign(new Error(sentence(String(said || `The server answered with status ${status}.`))), { status, files });
}

async function call(path, options = {}) {
  for (;;) {
    const key = remember('sessionStorage', 'riddle.key');
    let answer;
    try {
      answer = await fetch(path, { ...options, headers: { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) } });
    } catch (error) {
      throw error.name === 'AbortError' ? error : new Error("The server can't be reached. Is it still running?");
    }
    if (answer.status === 401) await askKey();
    else if (!answer.ok) throw problem(answer.status, await answer.text(), answer.headers.get('Retry-After'));
    else return answer;
  }
}
const get = async path => JSON.parse(await (await call(path)).text(), exact);
const post = (path, body, more) =>
  call(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), ...more });

/* The events of a stream as they come; "type" is in the data as well. */
async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split(/\r?\n/), data = lines.filter(l => l.startsWith('data:')).map(l => l.slice(5)).join('\n');
      const name = lines.find(l => l.startsWith('event:'))?.slice(6).trim();
      if (data) { const json = JSON.parse(data, exact); yield [name || json.type, json]; }
    }
  }
}

/* ---- data ---- */

async function loadSets() {
  state.sets = (await get('/datasets')).datasets;
  state.chosen = state.chosen.filter(id => state.sets.some(s => s.id === id));
  if (!state.chosen.length && state.sets.length) state.chosen = [state.sets[0].id];
}
const nameOf = ids => ids.map(id => state.sets.find(s => s.id === id)?.name || id).join(', ');

function choose(ids) {
  state.chosen = ids;
  for (const b of $('sets').querySelectorAll('[data-id]')) b.setAttribute('aria-pressed', ids.includes(b.dataset.id));
  const prompts = state.sets.find(s => s.id === ids[0])?.prompts || [];
  $('chips').replaceChildren(...prompts.slice(0, 4).map(p => button(p, () => ask(p))));
  $('describe').hidden = !ids.length;
  $('question').placeholder = ids.length ? `Ask about ${nameOf(ids)}` : 'Add a file, then ask about it';
}

async function showStart() {
  $('sets').replaceChildren(
    ...state.sets.map(s => el('button', { type: 'button', 'data-id': s.id, 'aria-pressed': 'false', click: () => choose([s.id]) },
      el('b', {}, s.name), el('span', {}, s.description || ''))),
    el('button', { type: 'button', class: 'add', click: () => $('file').click() },
      el('b', {}, 'Add a file'), el('span', {}, 'CSV, JSON, Parquet, Excel: choose one, or just drop it here.')));
  $('start').hidden = false;
  for (const id of ['new', 'delete', 'about', 'earlier']) $(id).hidden = true;
  document.title = 'Riddle';
  choose(state.chosen);
  try {
    const { threads, order } = await get('/threads?limit=6');
    const used = order.filter(id => threads[id].message_count > 0 && threads[id].title);
    $('earlier').hidden = !used.length || !!state.thread;
    $('earlier').querySelector('ul').replaceChildren(...used.map(id => el('li', {}, button(threads[id].title, () => openThread({ id })))));
  } catch { /* the page works without the list */ }
}

/* fetch() tells nothing about an upload's progress, so this is the older way. */
function send(files, key, progress) {
  return new Promise((resolve, reject) => {
    const form = new FormData(), request = new XMLHttpRequest();
    for (const file of files) form.append('files', file);
    request.open('POST', '/upload');
    if (key) request.setRequestHeader('Authorization', `Bearer ${key}`);
    request.upload.onprogress = event => event.lengthComputable && progress(event.loaded / event.total);
    request.onerror = () => reject(new Error('The upload was cut off. Is the server still running?'));
    request.onload = () => (request.status < 300 ? resolve(JSON.parse(request.responseText))
      : reject(problem(request.status, request.responseText, request.getResponseHeader('Retry-After'))));
    request.send(form);
  });
}

async function upload(files) {
  files = [...files];
  if (!files.length) return;
  if (state.turn) { notice('Wait for the answer, or stop it, before you add a file.'); return; }
  const what = files.length === 1 ? files[0].name : `${files.length} files`, bar = $('uploading').querySelector('progress');
  const show = (text, part) => {
    $('uploading').hidden = false;
    $('uploading').querySelector('span').textContent = text;
    if (part === undefined) bar.removeAttribute('value'); else bar.value = part;
  };
  notice(null);
  show(`Uploading ${what}`, 0);
  try {
    let answer;
    while (!answer)
      try {
        answer = await send(files, remember('sessionStorage', 'riddle.key'),
          part => show(part < 1 ? `Uploading ${what}` : `Reading ${what}`, part < 1 ? part : undefined));
      } catch (error) {
        if (error.status !== 401) throw error;
        await askKey();
      }
    const ready = [], wrong = (answer.errors || []).map(e => `${e.filename}: ${e.error}`);
    for (const file of answer.files) { /* a large one is still being read (202) */
      let now = file;
      while (now.status === 'processing') {
        show(`Reading ${file.filename}`, now.progress);
        await wait(300);
        now = await get(`/uploads/${encodeURIComponent(file.file_id)}`);
      }
      if (now.error) wrong.push(`${file.filename}: ${now.error}`); else ready.push(file.file_id);
    }
    if (ready.length) {
      state.chosen = ready;
      await newThread();
    }
    if (wrong.length) notice(wrong.join('\n'));
  } catch (error) {
    notice(error.files || `${what} was not taken. ${error.message}`);
  }
  $('uploading').hidden = true;
  $('file').value = '';
}

function notice(text) {
  $('notice').hidden = !text;
  $('notice').replaceChildren();
  if (text) $('notice').append(el('div', { class: 'problem' }, el('span', {}, text), button('Close', () => notice(null))));
}

/* ---- threads ---- */

/* The address names the thread, so that it can be kept and passed on. */
function showAddress(id) {
  window.history.replaceState(null, '', id ? `?thread=${encodeURIComponent(id)}` : window.location.pathname);
}

function inThread(thread) {
  state.thread = thread;
  showAddress(thread.id);
  remember('localStorage', 'riddle.thread', thread);
  $('start').hidden = true;
  $('chips').replaceChildren();
  for (const id of ['new', 'delete']) $(id).hidden = false;
  $('describe').hidden = !thread.data;
  $('about').hidden = !thread.name;
  $('about').textContent = thread.name || '';
  document.title = thread.name ? `${thread.name} · Riddle` : 'Riddle';
  $('question').placeholder = 'Ask another question';
}

async function newThread() {
  leaveTurn();
  state.thread = null;
  showAddress(null);
  remember('localStorage', 'riddle.thread', null);
  $('thread').replaceChildren();
  notice(null);
  await loadSets();
  await showStart();
  window.scrollTo(0, 0);
  focusQuestion();
}

async function deleteThread() {
  if (!state.thread || !window.confirm('Delete this thread with all its questions and answers?')) return;
  leaveTurn();
  try {
    await call(`/thread/${encodeURIComponent(state.thread.id)}`, { method: 'DELETE' });
  } catch (error) {
    if (error.status !== 404) { notice(`The thread was not deleted. ${error.message}`); return; }
  }
  await newThread();
}

/* Results of the newest answers come at once, of older ones when they are asked for: each is a request of its own. */
const SHOWN_AT_ONCE = 4, HISTORY = 100;

async function openThread(thread) {
  let page, running = null;
  try {
    running = await followTurn(thread.id); /* before the messages: a turn is in one of them at least */
    page = await get(`/threads/${encodeURIComponent(thread.id)}/messages?limit=${HISTORY}`);
  } catch (error) {
    if (error.status !== 404) throw error;
    await newThread();
    return;
  }
  const first = page.messages.find(m => m.dataset_id);
  const data = state.sets.some(s => s.id === first?.dataset_id) ? first.dataset_id : null;
  inThread({ id: thread.id, name: thread.name || (first && nameOf([first.dataset_id])) || '', data });
  const confirmed = data ? await verifiedRuns(data) : new Set();
  $('thread').replaceChildren();
  if (page.before) $('thread').append(el('p', { class: 'note' }, `The last ${page.messages.length} messages of this thread:`));
  const answers = page.messages.filter(m => m.role === 'assistant');
  let view = null;
  for (const m of page.messages) {
    if (running && m.run_id === running.asked.run_id) continue;
    if (m.role === 'user') view = newTurn(m.content);
    else if (m.role === 'assistant' && view) {
      const told = { response: m.content, status: m.metadata?.status, chart: m.metadata?.chart, past: true,
        run_id: m.run_id, confirmed: confirmed.has(m.run_id) };
      const more = async () => {
        const run = await get(`/runs/${encodeURIComponent(m.run_id)}`);
        const code = run.python_code || run.compiled_sql;
        Object.assign(told, { result: run.result || run.result_json, code_runs: code ?
          [{ language: run.python_code ? 'python' : 'sql', code, plan: run.plan || run.plan_json, exec_ms: run.exec_time_ms }] : [] });
      };
      const show = async ({ at, told, more }) => { try { await more(); } catch { /* the words are there */ } finish(at, told); };
      const item = { at: view, told, more };
      finish(view, told);
      if (!m.run_id || !m.metadata?.code) continue; /* only words */
      if (answers.length - answers.indexOf(m) <= SHOWN_AT_ONCE) await show(item);
      else view.box.append(el('div', { class: 'chips' }, button('Show the result', () => show(item))));
    }
  }
  window.scrollTo(0, document.documentElement.scrollHeight);
  focusQuestion();
  if (running) showTurn(beginTurn(running.asked.message || running.asked.code), running.control, async () => running.stream);
}

/* ---- a turn ---- */

/* Not where that would open a keyboard over the page. */
const focusQuestion = () => window.matchMedia('(pointer: coarse)').matches || $('question').focus();
const isCode = text => /^\s*(sql|python):/i.test(text);

function newTurn(question, shown = question) {
  const view = { question, text: '', runs: [], images: [], box: el('div', { class: 'answer' }) };
  view.root = el('article', { class: 'turn' }, el('p', { class: isCode(shown) ? 'question code' : 'question' }, shown), view.box);
  $('thread').append(view.root);
  return view;
}

/* Changes the page and stays at its end, if the reader is there. */
function following(change) {
  const page = document.documentElement, near = window.innerHeight + window.scrollY > page.scrollHeight - 200;
  change();
  if (near) window.scrollTo(0, page.scrollHeight);
}

const TOOLS = { run_sql: 'Running SQL', run_plan: 'Running a query', run_python: 'Running Python', describe_table: 'Looking at a table',
  find_values: 'Looking for spellings', show_chart: 'Drawing a chart', ask_person: 'Asking you', list_files: 'Looking at the files' };

function onEvent(view, type, data) {
  if (type === 'status' || type === 'progress' || type === 'tool_call') {
    const text = type !== 'tool_call' ? data.text : TOOLS[data.name] || `Using ${data.name}`;
    view.status.replaceChildren(text, ...(data.progress > 0 ? [el('progress', { max: 1, value: data.progress, 'aria-label': text })] : []));
  } else if (type === 'thinking') {
    view.thought = ((view.thought || '') + data.text).slice(-160);
    view.status.replaceChildren(view.thought.replace(/\s+/g, ' '));
  } else if (type === 'token') {
    view.text += data.text;
    view.words ??= view.status.parentNode.insertBefore(el('div', { class: 'text' }), view.status);
    view.words.replaceChildren(el('p', {}, view.text));
  } else if (type === 'step') {
    view.live ??= view.status.parentNode.insertBefore(el('pre', { class: 'live', 'aria-hidden': 'true' }), view.status);
    view.live.textContent = (view.live.textContent + data.text).slice(-20000);
    view.live.scrollTop = view.live.scrollHeight;
  } else if (type === 'code_run') {
    view.live?.remove();
    view.live = null;
    view.runs.push(data);
  } else if (type === 'image') {
    const shown = picture(data);
    if (shown) { view.images.push(shown); view.box.insertBefore(shown, view.status); }
  } else if (type === 'error') {
    view.error = data.message || data.error?.message;
  } else if (type === 'done') {
    view.done = data;
  }
}

/* The very plan that was offered: its description, sent as a question, might be read in yet another way. */
async function pick(choice) {
  if (!choice.plan) return ask(choice.reading); /* offered by a model, in words */
  await ask(`PLAN: ${JSON.stringify(choice.plan)}`, choice.reading.replaceAll('`', ''));
}

/* The page no longer shows the turn; on the server it goes on. */
function leaveTurn() {
  state.turn?.abort();
  state.turn = null;
  $('send').hidden = false;
  $('stop').hidden = true;
}

async function stopTurn() {
  const turn = state.turn;
  if (!turn) return;
  if (!turn.sent) { turn.abort(); return; }
  try {
    await post(`/thread/${encodeURIComponent(state.thread.id)}/stop`, {});
  } catch (error) {
    notice(`The answer could not be stopped. ${error.message}`);
  }
}

/* The turn that is under way in a thread: what was asked, and the events from its beginning. null: there is none. */
async function followTurn(id) {
  const control = new AbortController();
  const answer = await call(`/thread/${encodeURIComponent(id)}/turn/stream`, { signal: control.signal });
  if (answer.status === 204) return null;
  const stream = events(answer), first = await stream.next();
  return first.done ? null : { control, stream, asked: first.value[1] };
}

function beginTurn(question, shown) {
  const view = newTurn(question, shown);
  view.status = el('p', { class: 'status' }, state.thread ? 'Sending' : 'Getting the data ready');
  view.box.append(view.status);
  view.box.setAttribute('aria-busy', 'true'); /* read out when it is whole */
  $('send').hidden = true;
  $('stop').hidden = false;
  $('start').hidden = true;
  $('chips').replaceChildren();
  window.scrollTo(0, document.documentElement.scrollHeight);
  return view;
}

/* Forgets what was shown of a turn whose events come again. */
function rewind(view) {
  Object.assign(view, { text: '', runs: [], images: [], words: null, live: null, error: null });
  view.box.replaceChildren(view.status);
}

/* Shows a turn to its end. A connection that is cut is taken up again while the turn is under way. */
async function showTurn(view, control, begin) {
  state.turn = control;
  const left = () => state.turn !== control;
  try {
    let stream = await begin();
    control.sent = true;
    for (;;) {
      try {
        for await (const [type, data] of stream) following(() => onEvent(view, type, data));
      } catch (error) {
        if (error.name === 'AbortError') throw error;
      }
      if (view.done) break;
      const again = await followTurn(state.thread.id);
      if (!again) { view.error ||= 'The connection was cut before the answer was complete.'; break; }
      control.abort = () => again.control.abort();
      rewind(view);
      stream = again.stream;
    }
  } catch (error) {
    if (error.name === 'AbortError') view.stopped = true;
    else view.error = error.status === 404 && state.thread ? 'This thread is no longer there. Begin a new one.' : error.message;
  }
  if (left()) return;
  following(() => finish(view, { code_runs: view.runs, response: view.text, ...view.done }));
  if (view.root.offsetHeight > window.innerHeight - 160) view.root.scrollIntoView();
  state.turn = null;
  $('send').hidden = false;
  $('stop').hidden = true;
  $('said').textContent = view.error ? `Problem: ${view.error}` : view.stopped ? 'Stopped' : 'The answer is there';
}

async function ask(question, shown) {
  question = question.trim();
  if (!question || state.turn) return;
  if (!state.thread && !state.chosen.length) { notice('Choose some data first, or add a file.'); return; }
  notice(null);
  const control = new AbortController();
  await showTurn(beginTurn(question, shown), control, async () => {
    if (!state.thread) {
      const wanted = { datasets: state.chosen, title: question.slice(0, 120) };
      const made = await (await post('/thread/new', wanted, { signal: control.signal })).json();
      inThread({ id: made.thread_id, name: nameOf(state.chosen), data: state.chosen[0] });
    }
    const path = `/thread/${encodeURIComponent(state.thread.id)}/message/stream`;
    return events(await post(path, { message: question }, { signal: control.signal }));
  });
}

/* What a cell said: its prints, and what it showed as text. */
const isFigure = o => o.png || o.svg || o.png_url || o.svg_url || o.image !== undefined; /* image: which of the answer's images it is */

function printed(result) {
  const shown = (result?.outputs || []).filter(o => !isFigure(o) && o.text && !result.columns?.length).map(o => o.text);
  return [result?.stdout, ...shown].filter(Boolean).join('\n').trimEnd().slice(0, 20000);
}

/* Everything that an answer holds, in the place of what was shown while it came. */
function finish(view, answer) {
  const { result, status } = answer, parts = [];
  const bad = ['failed', 'rejected', 'timed_out', 'error'].includes(status) && !answer.suggestions;
  const chips = (list, label, act) => list?.length &&
    parts.push(el('div', { class: 'chips' }, list.map(x => button(label(x), () => act(x)))));
  let text = answer.response || '';
  if (answer.choices?.length || answer.suggestions?.length) text = text.split('\n')[0]; /* the rest repeats the buttons */
  if (view.stopped || status === 'cancelled') {
    if (text && status !== 'cancelled') parts.push(words(text, []));
    parts.push(el('p', { class: 'note' }, 'Stopped before it was finished.'));
  } else if (view.error || bad) {
    parts.push(el('div', { class: 'problem', role: answer.past ? null : 'alert' }, el('span', {}, view.error || text),
      answer.past ? null : view.error ? button('Try again', () => { if (!state.turn) { view.root.remove(); ask(view.question); } })
        : button('Edit', () => { $('question').value = view.question; fit(); $('question').focus(); })));
  } else {
    parts.push(words(text, answer.flagged || []));
    if (answer.flagged?.length)
      parts.push(el('p', { class: 'note doubt' }, 'Underlined figures are in no result of this answer. Check them before you use them.'));
    if (answer.reading && !text.includes(answer.reading)) parts.push(el('p', { class: 'note' }, `Read as: ${answer.reading}`));
    if (answer.warning && !text.includes(answer.warning)) parts.push(el('p', { class: 'note doubt' }, answer.warning));
    chips(answer.choices, c => c.reading.replaceAll('`', ''), pick);
    chips(answer.suggestions, s => s, ask);
    if (isCode(view.question) && printed(result)) parts.push(el('pre', { class: 'output', tabindex: 0 }, printed(result)));
    if (answer.chart && result) parts.push(chart(answer.chart, result));
    if (result?.columns?.length) parts.push(table(result));
  }
  parts.push(...(view.images.length ? view.images : (result?.outputs || []).map(picture).filter(Boolean)));
  if (answer.files?.length)
    parts.push(el('div', { class: 'files' }, answer.files.map(f =>
      button(`↓ ${f.path}${f.size ? ` (${bytes(f.size)})` : ''}`, () => download(f.path)))));
  if (answer.code_runs?.length) parts.push(ran(answer.code_runs));
  if (answer.verified) parts.push(el('p', { class: 'note' }, 'Answered as you confirmed it earlier.'));
  else if (answer.run_id && answer.code_runs?.length && !view.error && !bad && !isCode(view.question) && !/^\s*plan:/i.test(view.question))
    parts.push(confirmButton(answer.run_id, answer.confirmed));
  if (answer.total_ms) {
    const who = isCode(view.question) ? null : answer.model === 'builtin' ? 'Built-in planner' : answer.model;
    parts.push(el('p', { class: 'meta' }, [who, seconds(answer.total_ms)].filter(Boolean).join(' · ')));
  }
  view.box.replaceChildren(...parts.filter(Boolean));
  view.box.removeAttribute('aria-busy');
}

/* ---- confirmed answers ---- */

/* Runs whose answers were confirmed. The page works without. */
async function verifiedRuns(data) {
  try {
    return new Set((await get(`/verified?limit=200&dataset_id=${encodeURIComponent(data)}`)).verified.map(v => v.run_id));
  } catch {
    return new Set();
  }
}

function confirmButton(run, done) {
  const label = () => (done ? '✓ Confirmed' : 'Confirm this answer');
  const b = button(label(), () => guarded(async () => {
    await call(`/runs/${encodeURIComponent(run)}/verify`, { method: done ? 'DELETE' : 'POST' });
    done = !done;
    b.textContent = label();
    b.setAttribute('aria-pressed', done);
  }), 'quiet confirm');
  b.title = 'A confirmed answer is used again for the same question, and as an example for alike ones.';
  b.setAttribute('aria-pressed', Boolean(done));
  return b;
}

const seconds = ms => (ms < 1000 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(1)} s`);
const bytes = n => (n < 1000 ? `${n} bytes` : n < 1e6 ? `${Math.round(n / 1000)} kB` : `${(n / 1e6).toFixed(1)} MB`);

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  el('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function download(path) {
  try {
    const answer = await call(`/files/download?session_id=${encodeURIComponent(state.thread.id)}&path=${encodeURIComponent(path)}`);
    save(await answer.blob(), path.split('/').pop());
  } catch (error) {
    notice(`${path} can't be downloaded. ${error.message}`);
  }
}

async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { /* no clipboard for a page without TLS on another host: the older way */
    const area = el('textarea', { class: 'unseen' });
    document.body.append(area);
    area.value = text;
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  const label = from.textContent;
  from.textContent = 'Copied';
  setTimeout(() => { from.textContent = label; }, 1500);
}
const copyButton = text => button('Copy', event => copy(text(), event.currentTarget), 'quiet');

/* ---- words: the little Markdown that models write ---- */

/* Where the server's flags are in this text. Offsets count bytes of UTF-8. */
function places(text, flagged) {
  const coded = new TextEncoder().encode(text), decoder = new TextDecoder();
  return flagged.map(f => {
    let at = decoder.decode(coded.subarray(0, f.offset)).length;
    if (!text.startsWith(f.text, at)) at = text.indexOf(f.text);
    return { from: at, to: at + f.text.length };
  }).filter(f => f.from >= 0).sort((a, b) => a.from - b.from);
}

function words(text, flagged) {
  const box = el('div', { class: 'text' }), flags = places(text, flagged);
  const put = (node, from, to) => { /* this stretch of the text, flags underlined */
    for (const f of flags)
      if (f.from >= from && f.to <= to) {
        const mark = el('mark', { title: 'This figure is in no result of this answer.' }, text.slice(f.from, f.to));
        node.append(text.slice(from, f.from), mark);
        from = f.to;
      }
    node.append(text.slice(from, to));
  };
  const line = (node, from, to) => {
    let done = from;
    for (const m of text.slice(from, to).matchAll(/\*\*(.+?)\*\*|`([^`]+)`/g)) {
      const at = from + m.index, width = m[1] === undefined ? 1 : 2, child = el(width === 2 ? 'strong' : 'code');
      put(node, done, at);
      done = at + m[0].length;
      put(child, at + width, done - width);
      node.append(child);
    }
    put(node, done, to);
    return node;
  };
  let at = 0, block = null, fence = null;
  for (const row of text.split('\n')) {
    const from = at, to = at + row.length, item = /^\s*([-*•]|\d+[.)])\s+/.exec(row), head = /^#{1,6}\s+/.exec(row);
    at = to + 1;
    if (/^\s*```/.test(row)) {
      fence = fence ? null : box.appendChild(el('div', { class: 'code-block' })).appendChild(el('pre'));
      block = null;
    } else if (fence) fence.append(row + '\n');
    else if (!row.trim()) block = null;
    else if (head) { box.append(line(el('h4'), from + head[0].length, to)); block = null; }
    else if (item) {
      const kind = /\d/.test(item[1]) ? 'OL' : 'UL';
      if (block?.nodeName !== kind) block = box.appendChild(el(kind.toLowerCase(), kind === 'OL' ? { start: parseInt(item[1], 10) } : {}));
      block.append(line(el('li'), from + item[0].length, to));
    } else {
      if (block?.nodeName !== 'P') block = box.appendChild(el('p')); else block.append('\n');
      line(block, from, to);
    }
  }
  return box;
}

/* ---- tables ---- */

const isNumeric = (type, values) => /INT|DOUBLE|FLOAT|DECIMAL|REAL|NUMERIC|NUMBER/i.test(type || '') ||
  (values.some(v => typeof v === 'number') && values.every(v => v === null || typeof v === 'number'));
const group = text => text.replace(/^(-?)(\d+)/, (all, sign, digits) => sign + digits.replace(/\B(?=(\d{3})+$)/g, ','));

/* How numbers of a column are written: thousands separated, with the decimals they need but at most four; years and ids as they are. */
function numberWriter(name, values) {
  const clean = v => String(+v.toPrecision(12)), plain = /(^|[_\s])(id|year|yr|zip|postcode|code)$/i.test(name);
  const decimals = v => (typeof v !== 'number' || clean(v).includes('e') ? 0 : (clean(v).split('.')[1] || '').length);
  const digits = Math.min(4, Math.max(0, ...values.map(decimals)));
  return v => {
    if (typeof v !== 'number') return plain ? String(v) : group(String(v));
    if (v !== 0 && (Math.abs(v) < 0.5 * 10 ** -digits || Math.abs(v) >= 1e21)) return String(+v.toPrecision(4));
    return plain ? v.toFixed(digits) : group(v.toFixed(digits));
  };
}

function shownText(v) {
  if (typeof v === 'object') return JSON.stringify(v);
  const time = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d(:\d\d(?:\.\d+)?)?)(Z|\+00:00)?$/.exec(v);
  return !time ? String(v) : /^00:00(:00(\.0+)?)?$/.test(time[2]) ? time[1] : `${time[1]} ${time[2]}`;
}

function writers(result) {
  return result.columns.map((name, i) => {
    const values = result.rows.map(row => row[i]).filter(v => v !== null);
    const numeric = isNumeric(result.types?.[i], values);
    return { name, numeric, write: numeric ? numberWriter(name, values) : shownText };
  });
}

const CELL = 400; /* characters that a cell shows; the whole text comes by its tooltip, CSV and copies */

function table(result) {
  const columns = writers(result), total = result.row_count ?? result.rows.length;
  if (result.rows.length === 1 && columns.length === 1 && result.rows[0][0] !== null && columns[0].numeric)
    return el('p', { class: 'stat' }, el('b', {}, columns[0].write(result.rows[0][0])), el('span', {}, columns[0].name));
  const cell = (v, c) => {
    if (v === null) return el('td', { class: c.numeric ? 'number none' : 'none' }, 'null');
    const text = c.write(v), raw = typeof v === 'object' ? text : String(v);
    const more = { class: c.numeric ? 'number' : text.length > 40 ? 'long' : text.length <= 20 ? 'short' : null, title: raw !== text || text.length > 60 ? raw.slice(0, 4000) : null };
    return el('td', more, c.numeric ? text : el('div', {}, text.length > CELL ? text.slice(0, CELL) + '…' : text));
  };
  const flat = separator => [result.columns, ...result.rows].map(row => row.map(v => {
    let text = v === null ? '' : typeof v === 'object' ? JSON.stringify(v) : String(v);
    /* A spreadsheet takes text that begins so for a formula, and a formula may start programs. */
    if (typeof v === 'string' && /^[=+\-@\t\r]/.test(text) && !isFinite(text)) text = "'" + text;
    return /["\n\r\t]/.test(text) || text.includes(separator) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join(separator)).join('\n');
  return el('div', { class: 'rows' },
    el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Result' }, el('table', {},
      el('thead', {}, el('tr', {}, columns.map(c => el('th', { scope: 'col', class: c.numeric && 'number', title: c.name }, c.name)))),
      el('tbody', {}, result.rows.map(row => el('tr', {}, row.map((v, i) => cell(v, columns[i]))))))),
    el('div', { class: 'bar' },
      el('span', {}, `${group(String(total))} ${total === 1 ? 'row' : 'rows'}${result.truncated ? ', and more that were left out' : ''}`),
      copyButton(() => flat('\t')), button('CSV', () => save(new Blob([flat(',') + '\n'], { type: 'text/csv' }), 'result.csv'), 'quiet')));
}

function picture(data) {
  const source = typeof data.png === 'string' ? `data:image/png;base64,${data.png}`
    : typeof data.svg === 'string' ? `data:image/svg+xml,${encodeURIComponent(data.svg)}` : null;
  const url = data.png_url || data.svg_url;
  if (!source && !url) return null;
  const image = el('img', { alt: data.text || 'Figure drawn by the code' });
  if (source) image.src = source;
  else fetchPicture(image, url);
  return el('figure', { class: 'picture' }, image);
}

/* A large figure is not inside the answer. Not as the image's own source: that request could not carry the key. */
async function fetchPicture(image, url) {
  try {
    const blob = URL.createObjectURL(await (await call(url)).blob());
    image.addEventListener('load', () => URL.revokeObjectURL(blob), { once: true });
    image.src = blob;
  } catch (error) {
    image.replaceWith(el('p', { class: 'note' }, `This figure can't be shown. ${error.message}`));
  }
}

function ran(runs) {
  const names = { sql: 'SQL', python: 'Python', plan: 'SQL' };
  const block = (title, code, output) => el('div', { class: 'code-block' },
    el('p', {}, el('span', {}, title), copyButton(() => code)), el('pre', { tabindex: 0 }, code),
    output ? el('pre', { tabindex: 0 }, output) : null);
  return el('details', { class: 'ran' }, el('summary', {}, 'What was run'), runs.map(run => [
    block(`${names[run.language] || run.language}${run.exec_ms ? ` · ${seconds(run.exec_ms)}` : ''}`, run.code || '',
      run.language === 'python' || run.error ? run.output : null),
    run.plan ? block('Query plan', JSON.stringify(run.plan, null, 2)) : null]));
}

/* ---- charts: bars, lines, points and arcs of a small Vega-Lite specification ---- */

const BARS = 25, COLOURS = 8, HEIGHT = 240;
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 2 });
const tickText = v => (Math.abs(v) >= 10000 ? compact.format(v) : group(String(+v.toPrecision(6))));

/* Spread arguments are bounded by the stack; lists of points are not. */
const least = list => list.reduce((a, b) => Math.min(a, b), Infinity), most = list => list.reduce((a, b) => Math.max(a, b), -Infinity);

const TICKS = 50;

function ticks(low, high, wanted) {
  /* Numbers that are too close to be told apart by steps between them are drawn as one. */
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (!Number.isFinite(high - low)) return Number.isFinite(size) && low < high ? [low, high] : [0, 1];
  if (high - low <= Math.max(size * 1e-12, 1e-300)) high = low + Math.max(1, size / 1000);
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find(m => m * power >= rough * 0.999), out = [];
  for (let i = Math.floor(low / step + 1e-9); out.length < TICKS; i++) {
    out.push(+(i * step).toPrecision(12));
    if (i * step >= high - step * 1e-9) break;
  }
  return out;
}

/* Milliseconds of a date, a month or a year; NaN for anything else. */
function time(v) {
  if (Number.isInteger(v) && v >= 1000 && v <= 3000) return Date.UTC(v, 0);
  const m = typeof v === 'string' && /^(\d{4})(-\d\d)?(-\d\d)?(?:[T ](.*))?$/.exec(v);
  if (!m) return NaN;
  const clock = m[4] || '00:00', zone = /Z$|[+-]\d\d:?\d\d$/.test(clock) ? '' : 'Z';
  return Date.parse(`${m[1]}${m[2] || '-01'}${m[3] || '-01'}T${clock}${zone}`);
}

function dateWriter(times) {
  const all = test => times.every(t => test(new Date(t))), years = new Set(times.map(t => new Date(t).getUTCFullYear())).size > 1;
  const midnight = all(d => d.getTime() % 864e5 === 0);
  const form = midnight && all(d => d.getUTCDate() === 1 && d.getUTCMonth() === 0) ? { year: 'numeric' }
    : midnight && all(d => d.getUTCDate() === 1) ? { month: 'short', year: 'numeric' }
      : { day: 'numeric', month: 'short', ...(years && { year: 'numeric' }),
        ...(!midnight && { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }) };
  const writer = new Intl.DateTimeFormat('en-US', { ...form, timeZone: 'UTC' });
  return t => writer.format(t);
}

function chart(spec, result) {
  const encoding = spec.encoding || {}, meta = spec.usermeta || {}, kind = meta.kind || spec.mark?.type || spec.mark;
  const column = (name, channel) => result.columns.indexOf(name ?? channel?.field?.replace(/\\(.)/g, '$1'));
  let x = column(meta.x, kind === 'arc' ? encoding.color : encoding.x), y = column(meta.y, kind === 'arc' ? encoding.theta : encoding.y);
  let s = kind === 'arc' ? -1 : column(meta.series, encoding.color);
  if (!meta.kind && kind === 'bar' && encoding.x?.type === 'quantitative' && encoding.y?.type !== 'quantitative') [x, y] = [y, x];
  if (x < 0 || y < 0 || !['bar', 'line', 'point', 'arc'].includes(kind)) return null;
  const all = writers(result), label = v => (v === null ? 'null' : all[x].numeric ? all[x].write(v) : shownText(v));
  const points = result.rows.filter(row => row[y] !== null && row[y] !== '' && Number.isFinite(Number(row[y]))) /* large ones are text */
    .map(row => ({ x: row[x], y: Number(row[y]), shown: row[y], s: s < 0 ? '' : row[s] === null ? 'null' : shownText(row[s]) }));
  if (!points.length) return null;
  const series = [...new Set(points.map(p => p.s))], colour = name => `c${series.indexOf(name) % COLOURS}`;
  const title = p => el('title', {}, `${label(p.x)}${s < 0 ? '' : `, ${p.s}`}: ${all[y].write(p.shown)}`);
  const name = `${all[y].name} by ${all[x].name}${s < 0 ? '' : ` and ${all[s].name}`}`;
  const svg = el('svg', { role: 'img', 'aria-label': name }), legend = el('div', { class: 'legend' });
  const figure = el('figure', { class: 'chart' }, el('figcaption', {}, name), svg, legend);
  const key = (text, c) => legend.append(el('span', { class: c }, el('i', {}, text)));
  const cut = (text, room) => (text.length > room ? text.slice(0, Math.max(1, room - 1)) + '…' : text);
  const say = (px, py, text, anchor) => svg.append(el('text', { x: px, y: py, 'text-anchor': anchor }, text));
  const rule = (x1, y1, x2, y2, c = 'grid') => svg.append(el('line', { x1, y1, x2, y2, class: c }));
  const size = (width, height) => { svg.setAttribute('viewBox', `0 0 ${width} ${height}`); svg.setAttribute('height', height); };
  if (kind !== 'arc' && s >= 0) series.forEach(text => key(cut(text, 40), colour(text)));
  const kinds = new Set(points.map(p => label(p.x))).size;
  if (kind === 'bar' && kinds > BARS) figure.append(el('p', { class: 'note' }, `The first ${BARS} of ${kinds}; the table has all.`));

  function arcs(width) {
    const total = points.reduce((sum, p) => sum + Math.max(0, p.y), 0), r = 96, cx = width / 2, cy = r + 4;
    let angle = -Math.PI / 2;
    size(width, 2 * r + 8);
    points.forEach((p, i) => {
      const share = Math.max(0, p.y) / (total || 1), end = angle + Math.min(share, 0.9999) * 2 * Math.PI;
      const at = (radius, a) => `${(cx + radius * Math.cos(a)).toFixed(2)} ${(cy + radius * Math.sin(a)).toFixed(2)}`;
      const arc = (radius, sweep, to) => `A${radius} ${radius} 0 ${share > 0.5 ? 1 : 0} ${sweep} ${at(radius, to)}`;
      const d = `M${at(r, angle)}${arc(r, 1, end)}L${at(56, end)}${arc(56, 0, angle)}Z`;
      svg.append(el('path', { class: `c${i % COLOURS} slice mark`, d }, title(p)));
      if (!legend.dataset.whole) key(`${cut(label(p.x), 40)} ${(share * 100).toFixed(1)} %`, `c${i % COLOURS}`);
      angle = end;
    });
    legend.dataset.whole = 'yes';
  }

  /* The axis of values: where a value is, between two ends. */
  function values(zero, from, to, count) {
    let low = least(points.map(p => p.y)), high = most(points.map(p => p.y));
    if (zero || low > 0 && low < 0.6 * high) [low, high] = [Math.min(0, low), Math.max(0, high)];
    const marks = ticks(low, high, count), last = marks[marks.length - 1];
    /* By halves, because the whole may be more than a number holds. */
    return { marks, at: v => from + (v / 2 - marks[0] / 2) / (last / 2 - marks[0] / 2) * (to - from) };
  }

  /* The frame of what stands: values at the left. */
  function upright(width, zero) {
    const scale = values(zero, HEIGHT, 8, 5), left = Math.max(...scale.marks.map(t => tickText(t).length)) * 7 + 10;
    size(width, HEIGHT + 26);
    for (const t of scale.marks) { rule(left, scale.at(t), width, scale.at(t)); say(left - 8, scale.at(t) + 4, tickText(t), 'end'); }
    return { scale, left };
  }

  function bar(p, x, y, width, height) {
    svg.append(el('rect', { class: `${colour(p.s)} mark`, rx: 2, x, y, width: Math.max(1, width), height: Math.max(1, height) }, title(p)));
  }

  function bars(width) {
    const names = [...new Set(points.map(p => label(p.x)))], shown = names.slice(0, BARS), place = new Map(shown.map((c, i) => [c, i]));
    const few = points.filter(p => place.has(label(p.x))), longest = most(shown.map(c => c.length)), n = series.length;
    if (longest * 7 + 8 > (width - 60) / shown.length) { /* names would run into each other: lying bars */
      const left = Math.min(longest, 26, Math.floor(width / 20)) * 6.6 + 12, thick = Math.max(26, 8 + n * 11), each = (thick - 8) / n;
      const bottom = shown.length * thick, scale = values(true, left, width - 14, Math.max(2, Math.floor((width - left) / 90)));
      size(width, bottom + 24);
      for (const t of scale.marks) { rule(scale.at(t), 0, scale.at(t), bottom); say(scale.at(t), bottom + 17, tickText(t), 'middle'); }
      shown.forEach((c, i) => say(left - 8, i * thick + thick / 2 + 4, cut(c, Math.floor((left - 12) / 6.6)), 'end'));
      for (const p of few) {
        const [from, to] = [scale.at(0), scale.at(p.y)].sort((a, b) => a - b);
        bar(p, from, place.get(label(p.x)) * thick + 4 + series.indexOf(p.s) * each, to - from, each - 1);
      }
      rule(scale.at(0), 0, scale.at(0), bottom, 'axis');
      return;
    }
    const { scale, left } = upright(width, true), step = (width - left) / shown.length, wide = Math.min(64, step * 0.72), each = wide / n;
    shown.forEach((c, i) => say(left + (i + 0.5) * step, HEIGHT + 19, c, 'middle'));
    for (const p of few) {
      const [top, bottom] = [scale.at(0), scale.at(p.y)].sort((a, b) => a - b);
      bar(p, left + (place.get(label(p.x)) + 0.5) * step - wide / 2 + series.indexOf(p.s) * each, top, each - (n > 1 ? 1 : 0), bottom - top);
    }
    rule(left, scale.at(0), width, scale.at(0), 'axis');
  }

  function lines(width) {
    const { scale, left } = upright(width, false);
    const times = points.map(p => time(p.x)), dated = encoding.x?.type === 'temporal' && times.every(t => !Number.isNaN(t));
    const counted = !dated && !['nominal', 'ordinal'].includes(encoding.x?.type) && points.every(p => typeof p.x === 'number');
    const names = [...new Set(points.map(p => label(p.x)))];
    const raw = dated ? times : counted ? points.map(p => p.x) : points.map(p => names.indexOf(label(p.x)));
    const marks = counted ? ticks(least(raw), most(raw), Math.max(2, Math.floor(width / 100))) : null;
    const low = marks ? marks[0] : least(raw), high = marks ? marks[marks.length - 1] : most(raw);
    const at = v => left + 10 + (high === low ? 0.5 : (v - low) / (high - low)) * (width - left - 24);
    const write = dated ? dateWriter(times) : counted ? (/year$/i.test(all[x].name) ? String : tickText) : i => cut(names[i], 14);
    const stops = marks || [...new Set(raw)].sort((a, b) => a - b), room = Math.max(...stops.slice(0, 50).map(v => write(v).length)) * 7 + 18;
    const every = Math.ceil(stops.length * room / (width - left));
    stops.filter((v, i) => i % every === 0).forEach(v => say(at(v), HEIGHT + 19, write(v), at(v) > width - room / 2 ? 'end' : 'middle'));
    for (const one of series) {
      const own = points.map((p, i) => ({ p, px: at(raw[i]), py: scale.at(p.y), v: raw[i] })).filter(o => o.p.s === one);
      if (kind === 'line') {
        own.sort((a, b) => a.v - b.v);
        const d = own.map((o, i) => `${i ? 'L' : 'M'}${o.px.toFixed(1)} ${o.py.toFixed(1)}`).join('');
        svg.append(el('path', { class: `${colour(one)} line`, d }));
      }
      const dot = kind === 'point' ? { r: 4, 'fill-opacity': 0.6 } : { r: own.length > 60 ? 1.5 : 3 };
      for (const o of own) svg.append(el('circle', { class: `${colour(one)} mark`, cx: o.px, cy: o.py, ...dot }, title(o.p)));
    }
  }

  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.floor(svg.clientWidth);
    if (!width || width === drawn) return;
    drawn = width;
    svg.replaceChildren();
    if (kind === 'arc') arcs(width); else if (kind === 'bar') bars(width); else lines(width);
  }).observe(figure);
  return figure;
}

/* ---- the page itself ---- */

function fit() {
  $('question').style.height = 'auto';
  $('question').style.height = `${$('question').scrollHeight}px`;
}

function submit() {
  if (state.turn || !$('question').value.trim()) return;
  const question = $('question').value;
  $('question').value = '';
  fit();
  ask(question);
}

$('question').addEventListener('input', fit);
$('question').addEventListener('keydown', event => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
$('ask').addEventListener('submit', event => { event.preventDefault(); submit(); });
$('stop').addEventListener('click', stopTurn);
document.addEventListener('keydown', event => { if (event.key === 'Escape') stopTurn(); });
$('new').addEventListener('click', () => guarded(newThread));
$('delete').addEventListener('click', () => guarded(deleteThread));
$('file').addEventListener('change', () => upload($('file').files));
for (const type of ['dragenter', 'dragover', 'dragleave', 'drop'])
  document.addEventListener(type, event => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    $('drop').hidden = type === 'drop' || (type === 'dragleave' && !event.relatedTarget);
    if (type === 'drop') upload(event.dataTransfer.files);
  });

async function guarded(act) {
  try { await act(); } catch (error) { notice(error.message); }
}

guarded(async () => {
  const named = new URLSearchParams(window.location.search).get('thread'), last = remember('localStorage', 'riddle.thread');
  const thread = named && named !== last?.id ? { id: named } : last;
  await loadSets();
  if (thread?.id) await openThread(thread); else { await showStart(); focusQuestion(); }
});
