// The body of a message as text, as JSON or as bytes.
export type BodyView = 'json' | 'text' | 'hex';

/** A longer body is cut in the hex view. */
export const HEX_MAX = 16 * 1024;

export interface BodySource {
  body?: string | null;
  body_base64?: string | null;
}

export function bytesOf(source: BodySource): Uint8Array {
  if (typeof source.body === 'string') return new TextEncoder().encode(source.body);
  try {
    return Uint8Array.from(atob(source.body_base64 ?? ''), (char) => char.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

/** The views that a body has, the most useful first. */
export function viewsOf(source: BodySource): BodyView[] {
  if (typeof source.body !== 'string') return ['hex'];
  return isStructure(source.body) ? ['json', 'text', 'hex'] : ['text', 'hex'];
}

/** An object or a list; a bare number or word is better read as text. */
function isStructure(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The first line of a body, for a list. */
export function summary(source: BodySource, most = 200): string {
  if (typeof source.body === 'string') return source.body.slice(0, most).replace(/\s+/g, ' ').trim();
  const bytes = bytesOf(source);
  const shown = [...bytes.subarray(0, 16)].map(hex).join(' ');
  return bytes.length > 16 ? `${shown} …` : shown;
}

function hex(byte: number): string {
  return byte.toString(16).padStart(2, '0');
}

/** `00000000  7b 22 74 6f …  {"to…` with `width` bytes a line. */
export function hexLines(bytes: Uint8Array, width = 16): string {
  const lines: string[] = [];
  const end = Math.min(bytes.length, HEX_MAX);
  for (let at = 0; at < end; at += width) {
    const part = [...bytes.subarray(at, Math.min(at + width, end))];
    const codes = part
      .map(hex)
      .join(' ')
      .padEnd(width * 3 - 1);
    const text = part.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${codes}  ${text}`);
  }
  return lines.join('\n');
}
