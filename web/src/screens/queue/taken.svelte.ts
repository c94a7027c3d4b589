// The messages that this page has taken as a consumer. They are lost with the page, as with a consumer that stops: then
// each is redelivered after its retry time.
import { api, asApiError, inNs } from '../../api/client';
import type { Message, Taken } from '../../api/types';
import { itemByItem } from '../../lib/bulk';
import { endOf, isHeld, type Held } from './held';

class TakenHere {
  #held: Record<string, Held[]> = $state.raw({});

  /** What was taken on the screen of this queue. */
  of(namespace: string, queue: string): Held[] {
    return this.#held[placeOf(namespace, queue)] ?? [];
  }

  /** `items` were taken on the screen of `queue`; they may be of other queues. */
  async add(namespace: string, queue: string, items: Taken[]): Promise<void> {
    const ids = new Set(items.map((item) => item.id));
    const before = this.of(namespace, queue).filter(({ message }) => !ids.has(message.id));
    this.#set(namespace, queue, [...items.map((message) => ({ message, endsAt: null })), ...before]);
    await this.read(namespace, queue);
  }

  /** Drops these: they were acknowledged, or put back into their queue. */
  drop(namespace: string, queue: string, ids: string[]): void {
    const left = this.of(namespace, queue).filter(({ message }) => !ids.includes(message.id));
    this.#set(namespace, queue, left);
  }

  /** Reads them again, and drops those that this page does not hold any more. */
  async read(namespace: string, queue: string): Promise<void> {
    const taken = Object.fromEntries(this.of(namespace, queue).map(({ message }) => [message.id, message]));
    const ends: Record<string, string | null> = {};
    const look = async (id: string) => {
      const now = await api.get<Message>(inNs(namespace, 'messages', id)).catch(missing);
      if (now && isHeld(taken[id]!, now)) ends[id] = endOf(now, Date.now());
      else delete taken[id];
    };
    // A message that cannot be read is kept as it is; the next action on it says what is wrong.
    const results = await itemByItem(Object.keys(taken), look).catch(() => []);
    const asked = results.map(({ id }) => id);
    const left = this.of(namespace, queue).filter(
      ({ message: { id } }) => id in taken || !asked.includes(id),
    );
    this.#set(
      namespace,
      queue,
      left.map((held) => ({ ...held, endsAt: ends[held.message.id] ?? held.endsAt })),
    );
  }

  #set(namespace: string, queue: string, held: Held[]): void {
    this.#held = { ...this.#held, [placeOf(namespace, queue)]: held };
  }
}

function placeOf(namespace: string, queue: string): string {
  return `${namespace} ${queue}`;
}

/** A message that is gone, as nothing; another error as it is. */
function missing(caught: unknown): null {
  if (asApiError(caught).status === 404) return null;
  throw caught;
}

export const takenHere = new TakenHere();
