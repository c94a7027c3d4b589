// What a person may do to messages, and the command lines that do the same.
import { api, ApiError, inNs } from '../../api/client';
import type { ActedOnMessages, ActOnMessages, Message } from '../../api/types';
import { t } from '../../i18n/i18n.svelte';
import { commands, option, type Lines } from '../../lib/commands';
import { router } from '../../lib/router.svelte';

export type Act = ActOnMessages['action'] | 'working';

/** To messages that are ready. The last one is dangerous, here and below. */
export const ON_READY: readonly Act[] = ['dequeue', 'ack', 'delete'];
/** To messages that were taken. */
export const ON_TAKEN: readonly Act[] = ['ack', 'working', 'return', 'nack', 'enqueue', 'delete'];
/** After these a message exists no more. */
export const ENDS: readonly Act[] = ['ack', 'delete'];

/** The id of a message can be in so many command lines. */
const LINES = 20;

/** A message that is delivered at most once is put back only as never taken. */
export function actsOf(message: Pick<Message, 'state' | 'attempts' | 'next_requeue_within'>): readonly Act[] {
  if (message.state === 'queued') return ON_READY;
  const isBack = message.next_requeue_within !== null && message.next_requeue_within !== undefined;
  if (message.attempts > 0) return isBack ? ON_TAKEN : ['ack', 'return', 'delete'];
  return isBack ? ['enqueue', 'ack', 'delete'] : ['ack', 'delete'];
}

export function actBody(action: ActOnMessages['action'], ids: string[], delay = ''): ActOnMessages {
  return { action, ids, ...(action === 'nack' && delay.trim() ? { delay: delay.trim() } : {}) };
}

/** Does it to one message. Throws if the message has changed so that nothing was done. */
export async function actOn(action: Act, id: string, delay = ''): Promise<void> {
  const { namespace } = router;
  if (action === 'working') return void (await api.post(inNs(namespace, 'messages', id, 'working')));
  const body = actBody(action, [id], delay);
  const { done } = await api.post<ActedOnMessages>(inNs(namespace, 'messages'), body);
  if (done === 0) throw new ApiError(409, 'nothing_done', '', t().queue.notDone);
}

export function actCommands(action: Act, ids: string[], delay = ''): Lines {
  const path = inNs(router.namespace, 'messages');
  if (action === 'working') {
    const lines = ids
      .slice(0, LINES)
      .map((id) => commands([], 'POST', `${path}/${encodeURIComponent(id)}/working`));
    return { cli: null, curl: lines.map((line) => line.curl).join('\n') };
  }
  const body = actBody(action, ids, delay);
  const words = body.delay ? option('delay', body.delay) : [];
  const made = commands(['queue', action, ...ids, ...words], 'POST', path, body);
  const hasCommand = ['ack', 'nack', 'delete'].includes(action);
  return hasCommand ? made : { cli: null, curl: made.curl };
}
