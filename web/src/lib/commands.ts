// The command lines that do the same as an action of the console.
import { session } from '../api/session.svelte';
import { router } from './router.svelte';
import { shellQuote } from './text';

export interface Commands {
  cli: string;
  curl: string;
}

/** Without a line of the CLI, where it has no command for the action. */
export type Lines = Commands | { cli: null; curl: string };

/** `commands(['job', 'pause', name], 'POST', inNs(ns, 'jobs', name, 'pause'))` */
export function commands(words: string[], method: string, path: string, body?: unknown): Commands {
  return {
    cli: [program(), ...words.map(shellQuote)].join(' '),
    curl: curl(method, path, body),
  };
}

/** `--reason 'the bank is closed'`. A value that begins with `-` would be read as an option of its own. */
export function option(name: string, value: string): string[] {
  return value.startsWith('-') ? [`--${name}=${value}`] : [`--${name}`, value];
}

/** `punctual`, or `punctual -n payments` in another namespace than the default. */
export function program(): string {
  return router.namespace === 'default' ? 'punctual' : `punctual -n ${shellQuote(router.namespace)}`;
}

function curl(method: string, path: string, body: unknown): string {
  const words = ['curl'];
  if (method !== 'GET') words.push('-X', method);
  // The variable is expanded by the shell, so it stands in double quotes.
  if (session.who?.auth === 'token') words.push('-H', '"Authorization: Bearer $PUNCTUAL_TOKEN"');
  words.push(shellQuote(location.origin + path));
  if (body !== undefined) {
    words.push('-H', shellQuote('Content-Type: application/json'), '-d', shellQuote(JSON.stringify(body)));
  }
  return words.join(' ');
}
