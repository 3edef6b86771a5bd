import { useRef } from 'preact/hooks';
import { Dialog } from '../shared/dialog';
import { keyWanted } from './call';

export function KeyDialog() {
  const input = useRef<HTMLInputElement>(null), take = keyWanted.value;
  if (!take) return null;
  return (
    <Dialog id="key" title="This server asks for a key">
      <form onSubmit={event => { event.preventDefault(); take(input.current!.value); }}>
        <p class="lead">Enter the API key you were given. It is kept until you close this tab.</p>
        <label for="key-value">API key</label>
        <input id="key-value" type="password" autocomplete="off" required ref={input} autofocus />
        <div class="actions"><button type="submit" class="main">Continue</button></div>
      </form>
    </Dialog>
  );
}
