import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon, type IconName } from './icon';

export interface Item { label: string; icon?: IconName; danger?: boolean; act: () => unknown }

const GAP = 4;

/* A button that opens a list of actions. Arrow keys walk, Escape closes, a click elsewhere closes. */
export function Menu({ label, items, icon = 'more', children, class: name = 'quiet' }:
  { label: string; items: Item[]; icon?: IconName; children?: ComponentChildren; class?: string }) {
  const [open, setOpen] = useState(false), root = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    const away = (event: Event) => { if (!root.current!.contains(event.target as Node)) setOpen(false); };
    document.addEventListener('pointerdown', away);
    const list = root.current!.querySelector<HTMLElement>('[role=menu]')!;
    /* At the window, not at what it stands in: a table or a chart would cut it off. */
    const at = root.current!.getBoundingClientRect(), { offsetWidth: width, offsetHeight: height } = list, below = at.bottom + GAP;
    list.style.left = `${Math.max(GAP, Math.min(at.right - width, window.innerWidth - width - GAP))}px`;
    list.style.top = `${below + height <= window.innerHeight - GAP ? below : Math.max(GAP, at.top - GAP - height)}px`;
    list.querySelector('button')?.focus({ preventScroll: true });
    const moved = (event: Event) => { if (event.type === 'resize' || (event.target as Node).contains(root.current)) setOpen(false); };
    document.addEventListener('scroll', moved, true);
    window.addEventListener('resize', moved);
    return () => {
      document.removeEventListener('pointerdown', away);
      document.removeEventListener('scroll', moved, true);
      window.removeEventListener('resize', moved);
    };
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
        <div role="menu" aria-label={label}>
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
