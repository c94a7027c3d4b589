// Reads the shown queues every few seconds and keeps what was read while the page is open: a listing has neither
// the counters nor the age of a queue.
import { SvelteMap } from 'svelte/reactivity';
import { api, inNs, url } from '../../api/client';
import { live } from '../../api/live.svelte';
import type { Message, Queue, Taken } from '../../api/types';
import { rates, withSample, type Rates, type Sample } from './samples';

const EVERY_MS = 5_000;
/** The age of the next message costs two more reads, so it is read in every third round. */
const AGE_ROUNDS = 3;
const WATCHED_MAX = 20;
const KEPT_QUEUES = 200;

export interface Watched {
  queue: Queue;
  samples: Sample[];
  rates: Rates;
  /** When the message that is delivered next was added. */
  oldest: string | null;
}

const all = new SvelteMap<string, Watched>();

function key(namespace: string, name: string): string {
  return `${namespace}\n${name}`;
}

/** What is known of a queue so far. */
export function watched(namespace: string, name: string): Watched | undefined {
  return all.get(key(namespace, name));
}

async function oldest(namespace: string, queue: Queue): Promise<string | null> {
  if (queue.queued === 0) return null;
  const { items } = await api.get<{ items: Taken[] }>(
    url(inNs(namespace, 'queues', queue.name, 'peek'), { count: 1 }),
  );
  const id = items[0]?.id;
  return id ? (await api.get<Message>(inNs(namespace, 'messages', id))).registered_at : null;
}

async function read(namespace: string, name: string, withAge: boolean): Promise<void> {
  const queue = await api.get<Queue>(inNs(namespace, 'queues', name));
  const before = all.get(key(namespace, name));
  // A message may be gone between the reads; the next round tells more.
  const age = withAge ? await oldest(namespace, queue).catch(() => null) : (before?.oldest ?? null);
  const samples = withSample(before?.samples ?? [], {
    at: Date.now(),
    queued: queue.queued,
    added: queue.added ?? null,
    taken: queue.taken ?? null,
  });
  all.delete(key(namespace, name));
  all.set(key(namespace, name), {
    queue,
    samples,
    rates: rates(samples),
    oldest: queue.queued === 0 ? null : age,
  });
  if (all.size > KEPT_QUEUES) all.delete(all.keys().next().value ?? '');
}

/** Watches the first queues of a list while the component lives. */
export function watch(namespace: () => string, names: () => string[]): void {
  const shown = $derived(names().slice(0, WATCHED_MAX).join('\n'));
  $effect(() => {
    const [ns, list] = [namespace(), shown.split('\n').filter(Boolean)];
    let [round, busy, stopped] = [0, false, false];
    const turn = async () => {
      if (busy || document.hidden || live.status === 'offline') return;
      busy = true;
      const withAge = round % AGE_ROUNDS === 0;
      round += 1;
      // One after another: a list must not be a burst of requests. A queue that is gone leaves the list by itself.
      for (const name of list) if (!stopped) await read(ns, name, withAge).catch(() => {});
      busy = false;
    };
    void turn();
    const timer = setInterval(() => void turn(), EVERY_MS);
    return () => {
      stopped = true;
      clearInterval(timer);
    };
  });
}
