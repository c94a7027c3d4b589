// Reads with a cache: the last answer is shown at once, then refreshed by live changes or by polling.
import { untrack } from 'svelte';
import { ApiError, api, asApiError, isAbort } from './client';
import { live, touches, type Change, type Topic } from './live.svelte';
import { session } from './session.svelte';

const CACHED_ANSWERS = 100;
/** Live changes refresh a query at most this often. */
const CALM_MS = 1_000;

// eslint-disable-next-line svelte/prefer-svelte-reactivity -- nothing is drawn from it
const cache = new Map<string, unknown>();

function remember(address: string, data: unknown): void {
  cache.delete(address);
  cache.set(address, data);
  if (cache.size > CACHED_ANSWERS) cache.delete(cache.keys().next().value ?? '');
}

export interface QueryOptions {
  /** The live changes that refresh the answer. Without them it is read once. */
  topics?: readonly Topic[];
  /** Refines `topics`, for example to one run: `(change) => change.runs.includes(id)`. */
  concerns?: (change: Change) => boolean;
}

export class Query<T> {
  /** The last answer; it stays while a newer one is loading. */
  data: T | undefined = $state.raw();
  error: ApiError | null = $state.raw(null);
  loading = $state(false);
  /** Reads again. */
  refresh: () => Promise<void> = async () => {};

  /** Shows a value at once, for example the answer of an action. */
  set(data: T): void {
    this.data = data;
  }
}

/**
 * Reads `address()` and follows its changes while the component lives; null reads nothing.
 *
 *     const job = query<Job>(() => inNs(router.namespace, 'jobs', name), { topics: ['jobs'] });
 */
export function query<T>(address: () => string | null, options: QueryOptions = {}): Query<T> {
  const state = new Query<T>();

  $effect(() => {
    const path = address();
    void session.epoch;
    if (path === null) {
      untrack(() => (state.data = undefined));
      return;
    }
    return untrack(() => start(state, path, options));
  });

  return state;
}

function start<T>(state: Query<T>, path: string, options: QueryOptions): () => void {
  let stop = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let readAt = 0;
  let again = false;
  state.data = cache.get(path) as T | undefined;
  state.error = null;

  async function read(): Promise<void> {
    stop.abort();
    stop = new AbortController();
    const { signal } = stop;
    readAt = Date.now();
    state.loading = true;
    try {
      const data = await api.get<T>(path, undefined, { signal });
      remember(path, data);
      state.data = data;
      state.error = null;
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      state.error = asApiError(error);
      if (state.error.status === 0) live.suspect();
    }
    state.loading = false;
    if (again) {
      again = false;
      void read();
    }
  }

  const { topics, concerns } = options;
  const unfollow = topics
    ? live.onChange((change) => {
        if (timer || document.hidden || !touches(change, topics)) return;
        if (concerns && !change.more && !concerns(change)) return;
        timer = setTimeout(
          () => {
            timer = undefined;
            // A slow answer is not thrown away for a newer one.
            if (state.loading) again = true;
            else void read();
          },
          Math.max(0, readAt + CALM_MS - Date.now()),
        );
      })
    : () => {};
  const onVisible = () => void (topics && !document.hidden && read());
  document.addEventListener('visibilitychange', onVisible);

  state.refresh = read;
  state.loading = true;
  // A screen that is left sees the address of the next one for a moment: it is gone before this reads.
  queueMicrotask(() => !stop.signal.aborted && void read());
  return () => {
    stop.abort();
    clearTimeout(timer);
    unfollow();
    document.removeEventListener('visibilitychange', onVisible);
  };
}
