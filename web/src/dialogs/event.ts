// The request that sends an event, and the command lines that do the same.
import { inNs } from '../api/client';
import type { SendEvent } from '../api/types';
import { commands, option, type Commands } from '../lib/commands';
import { router } from '../lib/router.svelte';

export function eventPath(name: string): string {
  return inNs(router.namespace, 'events', name);
}

/** `params` is null if its text is not a JSON object. */
export function eventBody(key: string, params: Record<string, unknown> | null): SendEvent {
  return { ...(key ? { key } : {}), ...(params && Object.keys(params).length > 0 ? { params } : {}) };
}

export function eventCommands(name: string, body: SendEvent): Commands {
  const words = ['event', 'send', name || 'NAME'];
  if (body.key) words.push(...option('key', body.key));
  if (body.params) words.push('--params', JSON.stringify(body.params));
  return commands(words, 'POST', eventPath(name || 'NAME'), Object.keys(body).length > 0 ? body : undefined);
}
