import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

interface Props { id: string; title: string; onClose?: () => void; wide?: boolean; full?: boolean; children: ComponentChildren }

/* A modal dialog that is open while it is rendered. Without onClose nothing but its own buttons ends it. */
export function Dialog({ id, title, onClose, wide, full, children }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    ref.current!.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog id={id} ref={ref} class={full ? 'full' : wide ? 'wide' : undefined} aria-labelledby={`${id}-title`}
      onCancel={event => { event.preventDefault(); onClose?.(); }}
      onKeyDown={event => { if (event.key === 'Escape') { event.preventDefault(); event.stopPropagation(); onClose?.(); } }}
      onClick={event => { if (onClose && event.target === ref.current) onClose(); }}>
      <div class="sheet">
        <h2 id={`${id}-title`}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}
