// The list of dead letters, oldest first; it is read again when runs change.
import { api, asApiError, inNs, isAbort, type ApiError } from '../../api/client';
import { live, touches } from '../../api/live.svelte';
import type { DeadLetter, Page } from '../../api/types';
import type { Query } from '../../lib/paths';

const PAGE = 200;
const CALM_MS = 2_000;

export class LetterList {
  rows: DeadLetter[] = $state.raw([]);
  ready = $state(false);
  error: ApiError | null = $state.raw(null);
  #loading = false;
  #next: string | null = $state(null);
  #path: string;
  #filter: Query;
  #stop = new AbortController();

  constructor(namespace: string, filter: Query) {
    this.#path = inNs(namespace, 'dead-letters');
    this.#filter = filter;
  }

  get complete(): boolean {
    return this.ready && this.#next === null;
  }

  start(): () => void {
    void this.reload();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const unfollow = live.onChange((change) => {
      if (timer || document.hidden || !touches(change, ['runs'])) return;
      timer = setTimeout(() => {
        timer = undefined;
        // New dead letters are added at the end, so the pages that were already loaded stay as they are.
        if (this.rows.length <= PAGE) void this.reload();
      }, CALM_MS);
    });
    return () => {
      this.#stop.abort();
      clearTimeout(timer);
      unfollow();
    };
  }

  async reload(): Promise<void> {
    await this.#read(null, (page) => (this.rows = page.items));
  }

  async more(): Promise<void> {
    if (this.#next === null || this.#loading) return;
    await this.#read(this.#next, (page) => (this.rows = [...this.rows, ...page.items]));
  }

  async #read(after: string | null, take: (page: Page<DeadLetter>) => void): Promise<void> {
    this.#loading = true;
    try {
      const query = { ...this.#filter, limit: PAGE, after };
      const page = await api.get<Page<DeadLetter>>(this.#path, query, { signal: this.#stop.signal });
      take(page);
      this.#next = page.next;
      this.ready = true;
      this.error = null;
    } catch (caught) {
      if (!isAbort(caught) && !this.#stop.signal.aborted) this.error = asApiError(caught);
    }
    this.#loading = false;
  }
}
