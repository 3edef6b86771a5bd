import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon, type IconName } from './icon';

export interface Item { label: string; icon?: IconName; danger?: boolean; act: () => unknown }

/* A button that opens a list of actions. Arrow keys walk, Escape closes, a click elsewhere closes. */
export function Menu({ label, items, icon = 'more', children, class: name = 'quiet' }:
  { label: string; items: Item[]; icon?: IconName; children?: ComponentChildren; class?: string }) {
  const [open, setOpen] = useState(false), root = useRef<HTMLDivElement>(null), [up, setUp] = useState(false);
  useEffect(() => {
    if (!open) return undefined;
    const away = (event: Event) => { if (!root.current!.contains(event.target as Node)) setOpen(false); };
    document.addEventListener('pointerdown', away);
    const list = root.current!.querySelector<HTMLElement>('[role=menu]')!;
    setUp(list.getBoundingClientRect().bottom > window.innerHeight);
    list.querySelector('button')?.focus();
    return () => document.removeEventListener('pointerdown', away);
  }, [open]);
  const onKeyDown = (event: KeyboardEvent) => {
    const all = [...root.current!.querySelectorAll<HTMLElement>('[role=menuitem]')], at = all.indexOf(document.activeElement as HTMLElement);
    if (event.key === 'Escape' && open) {
      event.stopPropagation();
      setOpen(false);
      root.current!.querySelector('button')!.focus();
    } else if (open && (event.key === 'ArrowDown' || event.key === 'ArrowUp')) {
      event.preventDefault();
      all[(at + (event.key === 'ArrowDown' ? 1 : all.length - 1)) % all.length]?.focus();
    }
  };
  return (
    <div class="menu" ref={root} onKeyDown={onKeyDown}>
      <button type="button" class={name} aria-haspopup="menu" aria-expanded={open} aria-label={children ? undefined : label} title={label}
        onClick={event => { event.stopPropagation(); setOpen(!open); }}>
        {children ?? <Icon name={icon} />}
      </button>
      {open && (
        <div role="menu" aria-label={label} class={up ? 'up' : undefined}>
          {items.map(item => (
            <button type="button" role="menuitem" class={item.danger ? 'danger' : undefined}
              onClick={event => { event.stopPropagation(); setOpen(false); item.act(); }}>
              {item.icon && <Icon name={item.icon} />}{item.label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
