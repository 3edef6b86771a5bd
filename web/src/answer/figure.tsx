import { useEffect, useState } from 'preact/hooks';
import { call } from '../api/call';
import type { Output } from '../api/types';

export const isFigure = (o: Output) => !!(o.png || o.svg || o.png_url || o.svg_url) || o.image !== undefined;

/*
 * A figure that code drew. An image element runs no script, not even that of an SVG. A large figure is not inside the answer and is
 * fetched here, not by the element: that request could not carry the key.
 */
export function Figure({ output }: { output: Output }) {
  const url = output.png_url || output.svg_url;
  const inside = typeof output.png === 'string' ? `data:image/png;base64,${output.png}`
    : typeof output.svg === 'string' ? `data:image/svg+xml,${encodeURIComponent(output.svg)}` : undefined;
  const [source, setSource] = useState(inside), [error, setError] = useState<string | null>(null);
  useEffect(() => {
    if (inside || !url) return undefined;
    let made: string | null = null, gone = false;
    call(url).then(answer => answer.blob()).then(blob => {
      if (gone) return;
      made = URL.createObjectURL(blob);
      setSource(made);
    }, problem => setError((problem as Error).message));
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [url]);
  if (!inside && !url) return null;
  if (error) return <p class="note">This figure can't be shown. {error}</p>;
  return <figure class="picture"><img alt={output.text || 'Figure drawn by the code'} src={source} /></figure>;
}
