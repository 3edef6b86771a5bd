/* What the first view needs is asked for before the rest of the page is set up: main.tsx imports this first. */
import { effect } from '@preact/signals';
import { away } from './api/call';
import { loadSets } from './data/sets';
import { guarded } from './shared/say';
import { loadThreads } from './threads/list';

const LIST_MS = 15000;

const load = () => { void guarded(loadSets), void loadThreads(); };
load();

/* States of kernels change without the page, other browsers make threads, and a server that was away may have others. */
const look = () => { if (!document.hidden && !away.value) void loadThreads(); };
setInterval(look, LIST_MS);
document.addEventListener('visibilitychange', look);
let gone = false;
effect(() => {
  if (gone && !away.value) load();
  gone = away.value;
});
