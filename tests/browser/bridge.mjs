/*
 * Playwright for tests that are written in Python: one JSON request a line on standard input, one answer a line on standard output.
 * A request is {page, do, with}: an operation of `operations` on a page, with its arguments. An answer is {value} or {error}, and
 * `seen`: what pages requested and what went wrong in them since the answer before. Ends when standard input does.
 *
 *   node bridge.mjs CHROMIUM
 */
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const packages = fileURLToPath(new URL('../../third_party/page/node_modules/playwright-core/package.json', import.meta.url));
const { chromium } = createRequire(packages)('playwright-core');

const TIMEOUT_MS = 30000, POLL_MS = 20, LOADED = { waitUntil: 'domcontentloaded' };
const DESKTOP = { viewport: { width: 1100, height: 820 } };
const PHONE = { viewport: { width: 390, height: 800 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

/* A browser that looks for updates or fetches lists would make requests that no page made. Its own sandbox needs what containers lack,
   and every page is ours. */
const browser = await chromium.launch({
  executablePath: process.argv[2],
  chromiumSandbox: false,
  args: ['--disable-gpu', '--no-proxy-server', '--force-color-profile=srgb', '--disable-component-update', '--disable-sync'],
});

const pages = new Map(), saved = new Map(); /* by number; files that a page handed out */
let seen = [];

function watch(page) {
  const id = pages.size + 1;
  pages.set(id, page);
  page.setDefaultTimeout(TIMEOUT_MS);
  page.on('request', request => seen.push([id, 'request', request.url()]));
  page.on('pageerror', error => seen.push([id, 'problem', error.stack || String(error)]));
  page.on('console', message => {
    if (['error', 'assert'].includes(message.type())) seen.push([id, 'problem', `${message.text()} ${message.location().url}`]);
  });
  page.on('dialog', dialog => dialog.accept());
  const files = saved.set(page, []).get(page);
  page.on('download', file => files.push({ name: file.suggestedFilename(), path: file.path() }));
  return id;
}

/* One page of each kind is used by all tests, because a new one is a new process with nothing in its caches; it forgets between them. */
const kinds = { desktop: DESKTOP, phone: PHONE }, kept = new Map();

async function fresh(kind) {
  const { viewport } = kinds[kind];
  if (!kept.has(kind)) kept.set(kind, watch(await (await browser.newContext(kinds[kind])).newPage()));
  const id = kept.get(kind), page = pages.get(id);
  await page.unrouteAll();
  await page.context().setOffline(false);
  if (page.url() !== 'about:blank') await page.evaluate('localStorage.clear(), sessionStorage.clear()');
  await page.goto('about:blank');
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'no-preference' });
  saved.get(page).length = 0;
  return id;
}

/* What Playwright waits with itself compiles the expression in the page again and again, which the page's policy forbids. */
async function until(page, expression, timeoutMs) {
  const attempt = `(() => { try { return ${expression} } catch { return null } })()`, end = Date.now() + timeoutMs;
  for (;;) {
    let value;
    try {
      value = await page.evaluate(attempt);
    } catch (error) {
      if (!/context was destroyed|navigation/.test(error.message)) throw error;
    }
    if (Array.isArray(value) ? value.length : value) return value;
    if (Date.now() > end) throw new Error('time is up');
    await new Promise(done => setTimeout(done, POLL_MS));
  }
}

/* The longest task of the busiest page's main thread, in milliseconds: as the clock counts, of the processor's time; and the latter of all. */
function longest({ traceEvents: events }) {
  const main = new Map(events.filter(e => e.name === 'thread_name' && e.args.name === 'CrRendererMain').map(e => [`${e.pid}/${e.tid}`, []]));
  for (const e of events) if (e.name === 'RunTask' && e.ph === 'X') main.get(`${e.pid}/${e.tid}`)?.push(e);
  const sum = tasks => tasks.reduce((all, e) => all + (e.tdur ?? 0), 0);
  const [tasks] = [...main.values()].sort((a, b) => sum(b) - sum(a));
  const most = name => Math.max(...tasks.map(e => e[name] ?? 0)) / 1000;
  return { clock: most('dur'), processor: most('tdur'), all: sum(tasks) / 1000 };
}

const escape = text => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

const operations = { /* of a page, by its name in a request */
  fresh: (_page, kind) => fresh(kind),
  sibling: async page => watch(await page.context().newPage()),
  close: page => page.close(),
  goto: (page, url) => page.goto(url, LOADED).then(() => null),
  reload: page => page.reload(LOADED).then(() => null),
  eval: (page, expression) => page.evaluate(expression),
  wait: until,
  click: (page, selector, text) => {
    const found = page.locator(selector).and(page.locator(':visible'));
    return (text ? found.filter({ hasText: new RegExp(escape(text)) }) : found).first().click();
  },
  type: (page, text) => page.keyboard.insertText(text),
  press: (page, keys) => page.keyboard.press(keys),
  files: (page, selector, paths) => page.locator(selector).setInputFiles(paths),
  fake: (page, end, contentType, body) => page.route(url => url.href.endsWith(end), route => route.fulfill({ status: 200, contentType, body })),
  unfake: page => page.unrouteAll(),
  download: async (page, end) => {
    const wanted = () => saved.get(page).find(file => file.name.endsWith(end));
    if (!wanted()) await page.waitForEvent('download', { predicate: wanted });
    const { name, path } = saved.get(page).splice(saved.get(page).indexOf(wanted()), 1)[0];
    return [name, await path];
  },
  offline: (page, yes) => page.context().setOffline(yes),
  size: (page, width, height) => page.setViewportSize({ width, height }),
  media: (page, features) => page.emulateMedia(features),
  emptyCache: async page => {
    const session = await page.context().newCDPSession(page);
    await session.send('Network.clearBrowserCache');
    await session.detach();
  },
  init: (page, script) => page.addInitScript(script).then(() => null),
  trace: page => browser.startTracing(page, { categories: ['toplevel', 'disabled-by-default-devtools.timeline', '__metadata'] }),
  traced: async () => longest(JSON.parse(await browser.stopTracing())),
  front: page => page.bringToFront(),
  screenshot: (page, path) => page.screenshot({ path, animations: 'disabled' }).then(() => null),
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line), answer = {};
  try {
    answer.value = await operations[request.do](pages.get(request.page), ...request.with) ?? null;
  } catch (error) {
    answer.error = String(error.message ?? error);
  }
  answer.seen = seen;
  seen = [];
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
