// One stream of changes for the whole page, and polling where the stream does not work.
//
//   connecting ──hello──▶ live ──ends──▶ connecting (after a backoff)
//        └──fails twice──▶ polling: queries read every 5 s; the stream is tried again with backoff
//
// A hidden page has no stream; queries read again when it is shown.
// `/readyz` tells whether the node is gone or not ready; that is the banner.
import { url } from './client';
import { inView, untilHidden } from './in-view';
import { follow } from './sse';

export const TOPICS = ['runs', 'jobs', 'queues', 'workers', 'nodes'] as const;
export type Topic = (typeof TOPICS)[number];
export type LiveStatus = 'live' | 'polling' | 'offline';

export const POLL_MS = 5_000;
const SILENCE_MS = 40_000; // the server sends ": ping" every 15 s
const BACKOFF_MS = [500, 1_000, 2_000, 5_000, 10_000, 30_000];

/** A `change` event of `GET /api/v1/live`: the ids that changed. */
export interface Change {
  runs: string[];
  jobs: string[];
  queues: string[];
  workers: boolean;
  nodes: boolean;
  /** More changed than is listed: read again. */
  more: boolean;
}

type Listener = (change: Change) => void;

/** A change of everything: sent when a stream begins, and as the pulse of polling. */
export const EVERYTHING: Change = { runs: [], jobs: [], queues: [], workers: true, nodes: true, more: true };

export class Live {
  status: LiveStatus = $state('live');
  /** Why the page is offline. */
  reason: 'unreachable' | 'not_ready' | null = $state(null);
  // eslint-disable-next-line svelte/prefer-svelte-reactivity -- nothing is drawn from it
  #listeners = new Set<Listener>();
  #stop: AbortController | null = null;

  /** Follows a namespace until the returned function is called; null follows all of them. */
  start(namespace: string | null): () => void {
    const stop = new AbortController();
    this.#stop?.abort();
    this.#stop = stop;
    void this.#run(namespace, stop.signal);
    return () => stop.abort();
  }

  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A request got no answer: find out at once instead of at the next pulse. */
  suspect(): void {
    if (this.status === 'live') void this.#probe();
  }

  async #run(namespace: string | null, stop: AbortSignal): Promise<void> {
    for (let failures = 0; !stop.aborted;) {
      await inView(stop);
      const worked = await this.#listen(namespace, stop);
      if (stop.aborted) return;
      if (document.hidden) continue;
      failures = worked ? 1 : failures + 1;
      const wait = BACKOFF_MS[Math.min(failures, BACKOFF_MS.length) - 1] ?? POLL_MS;
      if (failures < 2) await sleep(wait, stop);
      else await this.#poll(wait, stop);
    }
  }

  /** Reads the stream until it ends. True means that it had been live. */
  async #listen(namespace: string | null, stop: AbortSignal): Promise<boolean> {
    const silent = untilHidden(stop);
    const end = () => silent.abort();
    let timer = setTimeout(end, SILENCE_MS);
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(end, SILENCE_MS);
    };
    let worked = false;
    try {
      const path = url('/api/v1/live', { namespace, topics: TOPICS.join(',') });
      for await (const { event, data } of follow(path, { signal: silent.signal, heard })) {
        if (event === 'hello') {
          // Changes may have been missed while there was no stream, also since the first read of the page.
          this.#tell(EVERYTHING);
          worked = true;
          this.status = 'live';
          this.reason = null;
        } else if (event === 'change') {
          this.#tell(JSON.parse(data) as Change);
        }
      }
    } catch {
      // refused, blocked or cut: the caller decides how to go on
    } finally {
      clearTimeout(timer);
      end();
    }
    return worked;
  }

  /** Polls for about `span`, then returns so that the stream is tried again. */
  async #poll(span: number, stop: AbortSignal): Promise<void> {
    const until = Date.now() + span;
    do {
      await this.#probe();
      if (this.status === 'polling') this.#tell(EVERYTHING);
      await sleep(POLL_MS, stop);
    } while (Date.now() < until && !stop.aborted);
  }

  async #probe(): Promise<void> {
    try {
      const { ok } = await fetch('/readyz', { cache: 'no-store' });
      this.status = ok ? 'polling' : 'offline';
      this.reason = ok ? null : 'not_ready';
    } catch {
      this.status = 'offline';
      this.reason = 'unreachable';
    }
  }

  #tell(change: Change): void {
    for (const listener of this.#listeners) listener(change);
  }
}

function sleep(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stop.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}

export const live = new Live();

/** Whether a change touches one of the topics. */
export function touches(change: Change, topics: readonly Topic[]): boolean {
  if (change.more) return true;
  return topics.some((topic) => {
    const part = change[topic];
    return Array.isArray(part) ? part.length > 0 : Boolean(part);
  });
}
