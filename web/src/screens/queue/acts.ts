// What a person may do to one message, and the command lines that do the same.
import { inNs } from '../../api/client';
import type { ActOnMessages, Message } from '../../api/types';
import { commands, option, type Lines } from '../../lib/commands';
import { router } from '../../lib/router.svelte';

export type Act = Exclude<ActOnMessages['action'], 'return'>;

/** The last one is dangerous. A message that is delivered at most once is never put back. */
export function actsOf(message: Pick<Message, 'state' | 'attempts' | 'next_requeue_within'>): Act[] {
  if (message.state === 'queued') return ['dequeue', 'ack', 'delete'];
  const isBack = message.next_requeue_within !== null && message.next_requeue_within !== undefined;
  const isTaken = message.attempts > 0;
  return [
    ...(isBack ? (['enqueue'] as const) : []),
    ...(isBack && isTaken ? (['nack'] as const) : []),
    'ack',
    'delete',
  ];
}

export function actBody(action: Act, id: string, delay = ''): ActOnMessages {
  return { action, ids: [id], ...(action === 'nack' && delay.trim() ? { delay: delay.trim() } : {}) };
}

export function actCommands(body: ActOnMessages): Lines {
  const delay = body.delay ? option('delay', body.delay) : [];
  const made = commands(
    ['queue', body.action, ...body.ids, ...delay],
    'POST',
    inNs(router.namespace, 'messages'),
    body,
  );
  const hasCommand = ['ack', 'nack', 'delete'].includes(body.action);
  return hasCommand ? made : { cli: null, curl: made.curl };
}
