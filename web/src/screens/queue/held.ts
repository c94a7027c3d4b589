// A message that this page has taken.
import type { Message, Taken } from '../../api/types';
import { spanMs } from '../../lib/spans';

export interface Held {
  message: Taken;
  /** When it is redelivered. Null: never, or not known yet. */
  endsAt: string | null;
}

/** Nobody else has got the message since: it is in no queue, and no counter has grown. */
export function isHeld(
  taken: Pick<Taken, 'nacks' | 'redeliveries'>,
  now: Pick<Message, 'state' | 'nacks' | 'redeliveries'>,
): boolean {
  return now.state === 'active' && now.nacks === taken.nacks && now.redeliveries === taken.redeliveries;
}

export function endOf(message: Pick<Message, 'next_requeue_within'>, now: number): string | null {
  const left = message.next_requeue_within ? spanMs(message.next_requeue_within) : null;
  return left === null ? null : new Date(now + left).toISOString();
}
