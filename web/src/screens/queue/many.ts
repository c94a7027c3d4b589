// Reads the messages that are added together: a body on each line, or a JSON or YAML list of bodies and messages.
import type { AddMessage } from '../../api/types';
import { t } from '../../i18n/i18n.svelte';
import { num } from '../../i18n/plural';
import { commands, type Lines } from '../../lib/commands';
import { shellQuote } from '../../lib/text';
import { lineOf, parse, place } from '../editor/document';
import { BYTES_MAX, optionWords, type Options } from './adding';

export type Format = 'lines' | 'list';

/** Messages in one request. */
export const MANY = 1000;
/** Bytes of bodies in one request, well below the limit of the server. */
const REQUEST_BYTES = 512 * 1024;
/** More lines are not written into a command line. */
const LINES_SHOWN = 20;

export interface Read {
  messages: AddMessage[];
  /** The line on which each message begins. */
  lines: number[];
  fault: { line: number; message: string } | null;
}

const encoder = new TextEncoder();

export function sizeOf(message: AddMessage): number {
  if (typeof message.body === 'string') return encoder.encode(message.body).length;
  return ((message.body_base64?.length ?? 0) / 4) * 3;
}

/** As the program does with `--lines`: the last line needs no end, and an empty line is an empty message. */
export function readMany(text: string, format: Format): Read {
  const read = format === 'lines' ? readLines(text) : readList(text);
  const long = read.messages.findIndex((message) => sizeOf(message) > BYTES_MAX);
  if (read.fault || long < 0) return read;
  return {
    ...read,
    fault: { line: read.lines[long]!, message: t().queue.tooLong(num(sizeOf(read.messages[long]!))) },
  };
}

function readLines(text: string): Read {
  const bodies = text.split(/\r?\n/);
  if (bodies.at(-1) === '') bodies.pop();
  return {
    messages: bodies.map((body) => ({ body })),
    lines: bodies.map((_, index) => index + 1),
    fault: null,
  };
}

function readList(text: string): Read {
  const nothing = { messages: [], lines: [] };
  if (text.trim() === '') return { ...nothing, fault: null };
  const parsed = parse(text);
  const [error] = parsed.errors;
  if (error) return { ...nothing, fault: { line: error.line, message: error.message } };
  const list: unknown = parsed.doc.toJS({ maxAliasCount: 100 });
  if (!Array.isArray(list)) return { ...nothing, fault: { line: 1, message: t().queue.notList } };
  const lines = list.map((_, index) => lineOf(text, place(parsed, `[${index}]`).from));
  const messages = list.map(asMessage);
  const wrong = messages.indexOf(null);
  if (wrong >= 0) return { ...nothing, fault: { line: lines[wrong]!, message: t().queue.notMessage } };
  return { messages: messages as AddMessage[], lines, fault: null };
}

function asMessage(item: unknown): AddMessage | null {
  if (typeof item === 'string') return { body: item };
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return null;
  return 'body' in item || 'body_base64' in item ? (item as AddMessage) : null;
}

/** The ranges of messages that fit into one request each. */
export function requestsOf(messages: AddMessage[]): [from: number, to: number][] {
  const made: [number, number][] = [];
  let [from, bytes] = [0, 0];
  messages.forEach((message, at) => {
    const size = sizeOf(message);
    if (at > from && (at - from === MANY || bytes + size > REQUEST_BYTES)) {
      made.push([from, at]);
      [from, bytes] = [at, 0];
    }
    bytes += size;
  });
  return messages.length > from ? [...made, [from, messages.length]] : made;
}

/** The program adds lines only. Many lines come from a file. */
export function manyCommands(
  read: Read,
  format: Format,
  queue: string,
  path: string,
  options: Options,
): Lines {
  const isShort = read.messages.length <= LINES_SHOWN;
  const messages = read.messages.map((message) => ({ ...options, ...message }));
  const made = commands(
    ['queue', 'add', queue, '--lines', ...optionWords(options)],
    'POST',
    path,
    isShort ? { messages } : undefined,
  );
  const curl = isShort ? made.curl : `${made.curl} -H 'Content-Type: application/json' -d @messages.json`;
  if (format === 'list') return { cli: null, curl };
  const bodies = read.messages.map((message) => shellQuote(message.body ?? '')).join(' ');
  return { cli: isShort ? `printf '%s\\n' ${bodies} | ${made.cli}` : `${made.cli} < messages.txt`, curl };
}
