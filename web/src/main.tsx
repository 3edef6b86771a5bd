import './begin';
import { render } from 'preact';
import './style/base.css';
import './style/frame.css';
import './style/answer.css';
import './style/data.css';
import './style/debug.css';
import './style/print.css';
import { App } from './app';
import { watchSchema } from './data/schema';
import { watchFiles } from './data/upload';
import { begun } from './threads/state';

render(<App />, document.getElementById('root')!);
watchFiles();
watchSchema();
begun();
