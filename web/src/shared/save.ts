/* Files that the page hands to the person, and the clipboard. */
import { said } from './say';

export function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob), link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch { /* no clipboard for a page without TLS on another host: the older way */
    const area = document.createElement('textarea');
    area.className = 'unseen';
    document.body.append(area);
    area.value = text;
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  said.value = 'Copied';
}
