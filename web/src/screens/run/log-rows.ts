// The rows of a log: chunks of output are cut into lines as they arrive. A row keeps its raw text and the style that it
// begins with; it is coloured only when it is drawn, so that a log of 10 MB costs little more than its text.
import { PLAIN, strip, styleAfter, type Style } from './ansi';
import { visible } from '../../lib/text';

/** One `output` event of GET …/runs/{id}/logs. */
export interface LogChunk {
  place: string;
  at: string;
  stream: Stream;
  text?: string;
  base64?: string;
}

export type Stream = 'stdout' | 'stderr' | 'note';

/** Browsers limit the height of a page; what is beyond is only in the download. */
export const ROWS_MAX = 800_000;
/** A longer line continues in the next row. */
export const ROW_CHARS_MAX = 4096;
const TAB = 8;

const ERROR = /\b(?:error|fatal|panic(?:ked)?|exception|traceback|segfault)\b/i;
const ASCII = /^[\x20-\x7e]*$/;
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\ud83c-\ud83e][\udc00-\udfff]/g;

export class LogRows {
  readonly texts: string[] = [];
  /** When the chunk arrived in which the row begins; NaN: unknown. */
  readonly at: number[] = [];
  readonly streams: Stream[] = [];
  /** The token of the attempt that wrote the row. */
  readonly tokens: string[] = [];
  readonly styles: Style[] = [];
  /** How many columns the row needs. */
  readonly cells: number[] = [];
  /** The first row with an error word, or -1. */
  firstError = -1;
  firstStderr = -1;
  /** The log is longer than what is shown. */
  cut = false;

  /** The last row has no end yet. */
  #open = false;
  /** A carriage return at the end of a chunk: a line feed may follow. */
  #carriage = false;
  #style: Style = PLAIN;
  #decoders = new Map<Stream, TextDecoder>();

  get count(): number {
    return this.texts.length;
  }

  /** Adds a chunk. Returns the first row that changed. */
  push(chunk: LogChunk): number {
    const token = chunk.place.split('-')[0] ?? '';
    const last = this.count - 1;
    if (this.#open && (this.streams[last] !== chunk.stream || this.tokens[last] !== token))
      this.#open = false;
    // Every attempt begins without colours.
    if (last >= 0 && this.tokens[last] !== token) this.#style = PLAIN;
    const changed = this.#open ? last : this.count;
    let text = this.#textOf(chunk);
    if (this.#carriage && text.startsWith('\n')) text = text.slice(1);
    if (text !== '') this.#carriage = text.endsWith('\r');
    const lines = text.split(/\r\n|\n|\r/);
    const at = Date.parse(chunk.at);
    lines.forEach((line, index) => {
      const ended = index < lines.length - 1;
      if (ended || line !== '') this.#line(line, at, chunk.stream, token);
      if (ended) this.#open = false;
    });
    return changed;
  }

  #textOf(chunk: LogChunk): string {
    const decoder = this.#decoders.get(chunk.stream);
    if (chunk.base64 !== undefined) {
      const bytes = Uint8Array.from(atob(chunk.base64), (char) => char.charCodeAt(0));
      const used = decoder ?? new TextDecoder();
      this.#decoders.set(chunk.stream, used);
      return used.decode(bytes, { stream: true });
    }
    return (decoder?.decode() ?? '') + (chunk.text ?? '');
  }

  #line(line: string, at: number, stream: Stream, token: string): void {
    let rest = line;
    if (this.#open) {
      const last = this.count - 1;
      rest = this.texts[last]! + line;
      at = this.at[last]!;
      this.#style = this.styles[last]!;
      for (const list of [this.texts, this.at, this.streams, this.tokens, this.styles, this.cells])
        list.pop();
    }
    do {
      if (this.count >= ROWS_MAX) {
        this.cut = true;
        return;
      }
      const end = cutAt(rest);
      this.#add(rest.slice(0, end), at, stream, token);
      rest = rest.slice(end);
    } while (rest !== '');
    this.#open = true;
  }

  #add(text: string, at: number, stream: Stream, token: string): void {
    const row = this.count;
    this.texts.push(text);
    this.at.push(at);
    this.streams.push(stream);
    this.tokens.push(token);
    this.styles.push(this.#style);
    this.cells.push(cellsOf(text));
    if (text.includes('\u001b')) this.#style = styleAfter(text, this.#style);
    if (this.firstStderr < 0 && stream === 'stderr') this.firstStderr = row;
    if (this.firstError < 0 && ERROR.test(strip(text))) this.firstError = row;
  }

  /** The text of a row as it is read: without sequences. */
  plain(row: number): string {
    return strip(this.texts[row] ?? '');
  }

  /** Whether the row is the first one of its attempt. */
  beginsAttempt(row: number): boolean {
    return row === 0 || this.tokens[row] !== this.tokens[row - 1];
  }
}

/** Where a long line is cut: not inside a pair of surrogates or an escape sequence. */
function cutAt(text: string): number {
  if (text.length <= ROW_CHARS_MAX) return text.length;
  const escape = text.lastIndexOf('\u001b', ROW_CHARS_MAX);
  if (escape > ROW_CHARS_MAX - 64) return escape;
  const before = text.charCodeAt(ROW_CHARS_MAX - 1);
  return before >= 0xd800 && before <= 0xdbff ? ROW_CHARS_MAX - 1 : ROW_CHARS_MAX;
}

export function cellsOf(raw: string): number {
  if (ASCII.test(raw)) return raw.length;
  const text = visible(strip(raw));
  let cells = text.length;
  for (const wide of text.match(WIDE) ?? []) cells += 2 - wide.length;
  if (!text.includes('\t')) return cells;
  let column = 0;
  for (const part of text.split('\t')) column += part.length + TAB - (part.length % TAB);
  return Math.max(cells, column);
}
