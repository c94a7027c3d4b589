// The fields of a message that is added, as they are typed, and the command lines that add it.
import { commands, option, type Commands } from '../../lib/commands';
import { shellQuote } from '../../lib/text';

export interface Typed {
  delay: string;
  retry: string;
  ttl: string;
  priority: string;
  maxLen: string;
  key: string;
}
export const EMPTY: Typed = { delay: '', retry: '', ttl: '', priority: '', maxLen: '', key: '' };

/** A message has at most this many bytes. */
export const BYTES_MAX = 1024 * 1024;

export interface Options {
  delay?: string;
  retry?: string;
  ttl?: string;
  priority?: number;
  max_len?: number;
  key?: string;
}

/** A number as it is typed; anything else is left to the server, which says what is wrong. */
export function numberOr(text: string): number {
  return (/^\d+$/.test(text.trim()) ? Number(text) : text) as number;
}

/** The fields of the request; an empty one is left out. */
export function optionsOf(typed: Typed): Options {
  const { delay, retry, ttl, priority, maxLen, key } = typed;
  return {
    ...(delay.trim() ? { delay: delay.trim() } : {}),
    ...(retry.trim() ? { retry: retry.trim() } : {}),
    ...(ttl.trim() ? { ttl: ttl.trim() } : {}),
    ...(priority.trim() ? { priority: numberOr(priority) } : {}),
    ...(maxLen.trim() ? { max_len: numberOr(maxLen) } : {}),
    ...(key ? { key } : {}),
  };
}

export function optionWords(options: Options): string[] {
  return Object.entries(options).flatMap(([name, value]) => option(name.replace('_', '-'), String(value)));
}

/** Base64 without its line ends, or null if it is none. */
export function base64Of(text: string): string | null {
  const joined = text.replace(/\s+/g, '');
  const isWhole = joined.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(joined);
  return isWhole ? joined : null;
}

export function bytesOfBase64(text: string): number {
  return (text.length / 4) * 3 - (/=*$/.exec(text)?.[0].length ?? 0);
}

/** What goes into the body: text, base64, or a file of this name. */
export type Source = { text: string } | { base64: string } | { file: string };

/** `to` ends with the name of the queue. */
export function addCommands(source: Source, queue: string, path: string, options: Options): Commands {
  const words = ['queue', 'add', queue, ...optionWords(options)];
  if ('file' in source) {
    const { cli, curl } = commands([...words, '--exact'], 'POST', path);
    const file = shellQuote(source.file);
    const head = shellQuote(JSON.stringify({ ...options, body_base64: '' }).slice(0, -2));
    const body = `{ printf %s ${head}; base64 < ${file} | tr -d '\\n'; printf '"}'; }`;
    return {
      cli: `${cli} < ${file}`,
      curl: `${body} | ${curl} -H 'Content-Type: application/json' -d @-`,
    };
  }
  if ('base64' in source) {
    const body = { ...options, body_base64: source.base64 };
    const { cli, curl } = commands([...words, '--exact'], 'POST', path, body);
    return { cli: `printf %s ${shellQuote(source.base64)} | base64 -d | ${cli}`, curl };
  }
  // Without `--exact` the program removes the last line end.
  const exact = source.text.endsWith('\n') ? ['--exact'] : [];
  const { cli, curl } = commands([...words, ...exact], 'POST', path, { ...options, body: source.text });
  return { cli: `printf %s ${shellQuote(source.text)} | ${cli}`, curl };
}
