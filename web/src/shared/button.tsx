import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { copy } from './save';
import { Icon, type IconName } from './icon';

type Props = Omit<JSX.IntrinsicElements['button'], 'icon'> & { icon?: IconName; children?: ComponentChildren };

export function Button({ icon, children, class: name, ...more }: Props) {
  return <button type="button" class={name as string} {...more}>{icon && <Icon name={icon} />}{children}</button>;
}

/* Says "Copied" for a moment. */
export function CopyButton({ text, label = 'Copy', done: copied = () => 'Copied' }: { text: () => string; label?: string; done?: () => string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  return <Button class="quiet" icon={done ? 'check' : 'copy'} onClick={() => copy(text()).then(() => setDone(true))}>{done ? copied() : label}</Button>;
}
