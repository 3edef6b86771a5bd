import { render } from 'preact';
import './style/base.css';
import './style/frame.css';
import './style/answer.css';
import './style/data.css';
import './style/debug.css';
import { App } from './app';
import { watchSchema } from './data/schema';
import { loadSets } from './data/sets';
import { watchFiles } from './data/upload';
import { guarded } from './shared/say';
import { loadThreads } from './threads/list';
import { begun } from './threads/state';

render(<App />, document.getElementById('root')!);
watchFiles();
watchSchema();
begun();
void guarded(async () => {
  await loadSets();
  await loadThreads();
});
document.addEventListener('visibilitychange', () => { if (!document.hidden) void loadThreads(); });
