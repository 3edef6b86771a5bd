import { signal } from '@preact/signals';
import { Button } from './button';
import { Dialog } from './dialog';

export const helping = signal(false);

const KEYS: [string, string][] = [
  ['/', 'Write a question'], ['Enter', 'Ask'], ['Shift Enter', 'New line'], ['↑ ↓', 'Earlier questions, in an empty field'], ['Tab', 'Complete the name of a column'],
  ['Esc', 'Stop the answer'], ['Alt N', 'New thread'], ['Alt T', 'Find a thread'], ['Alt D', 'Show the data'], ['Alt ↑ ↓', 'Walk through the answers'], ['Ctrl Enter', 'Run code that you edit'],
  ['F10', 'Next line of code that you step through'], ['F11', 'Into a function; with Shift, out of it'], ['F8', 'Continue, or pause'], ['?', 'This sheet']];

export function Help() {
  if (!helping.value) return null;
  const close = () => { helping.value = false; };
  return (
    <Dialog id="help" title="Keyboard" onClose={close}>
      <dl class="keys">{KEYS.map(([key, what]) => <div><dt>{key.split(' ').map(k => <kbd>{k}</kbd>)}</dt><dd>{what}</dd></div>)}</dl>
      <div class="actions"><Button onClick={close}>Close</Button></div>
    </Dialog>
  );
}
