/* eslint svelte/prefer-svelte-reactivity: off -- the sets and maps here are for one call; nothing is drawn from them */
// The list of runs: pages are appended while one scrolls; live changes update rows in place, new rows wait.
import { api, asApiError, isAbort, url, inNs, type ApiError } from '../../api/client';
import { live, touches } from '../../api/live.svelte';
import type { Run, RunPage, StateCounts } from '../../api/types';
import { toSearch, type Query } from '../../lib/paths';
import { isOpen } from '../../lib/states';
import { merge } from './merge';

const PAGE = 200;
const NEWEST = 100;
/** Rows that changed outside the newest page are read one by one, up to this many at a time, if they are among these. */
const SINGLE_MAX = 10;
const SINGLE_AMONG = 2_000;
const CALM_MS = 1_000;
/** Counting reads many rows on the server, so a live list counts at most this often. */
const COUNT_MS = 10_000;
/** Without scrolling, the list does not grow beyond this. */
const KEPT = 500;

function same(a: Run, b: Run): boolean {
  return (
    a.state === b.state &&
    a.attempt === b.attempt &&
    a.reason === b.reason &&
    a.progress === b.progress &&
    a.progress_message === b.progress_message &&
    a.finished_at === b.finished_at
  );
}

export class RunList {
  rows: Run[] = $state.raw([]);
  counts: StateCounts | null = $state.raw(null);
  /** New rows, newest first, that are not shown yet. */
  fresh: Run[] = $state.raw([]);
  loading = $state(true);
  /** The first page was read. */
  ready = $state(false);
  error: ApiError | null = $state.raw(null);
  /** True while rows must not move. */
  held = false;

  #namespace: string;
  #filter: Query;
  #next: string | null = null;
  #gap = false;
  #changed = new Set<string>();
  #refreshTimer: ReturnType<typeof setTimeout> | undefined;
  #countedAt = -Infinity;
  #countTimer: ReturnType<typeof setTimeout> | undefined;
  #stop = new AbortController();

  constructor(namespace: string, filter: Query) {
    this.#namespace = namespace;
    this.#filter = filter;
  }

  get complete(): boolean {
    return this.ready && this.#next === null;
  }

  start(): () => void {
    void this.reload();
    const unfollow = live.onChange((change) => {
      if (document.hidden || !touches(change, ['runs'])) return;
      for (const id of change.runs) this.#changed.add(id);
      this.#refreshIn(CALM_MS);
    });
    const onVisible = () => void (!document.hidden && this.#refreshIn(0));
    document.addEventListener('visibilitychange', onVisible);
    return () => {
      this.#stop.abort();
      clearTimeout(this.#refreshTimer);
      clearTimeout(this.#countTimer);
      unfollow();
      document.removeEventListener('visibilitychange', onVisible);
    };
  }

  #refreshIn(ms: number): void {
    this.#refreshTimer ??= setTimeout(() => {
      this.#refreshTimer = undefined;
      if (this.loading) return this.#refreshIn(CALM_MS);
      const ids = this.#changed;
      this.#changed = new Set();
      void this.#refresh(ids);
    }, ms);
  }

  async #read(limit: number, after: string | null, count: boolean): Promise<RunPage> {
    const query = { ...this.#filter, limit, after, count };
    const path = inNs(this.#namespace, 'runs');
    const page = await api.get<RunPage>(path, query, { signal: this.#stop.signal });
    if (count) {
      this.counts = page.counts ?? null;
      this.#countedAt = Date.now();
    }
    return page;
  }

  /** Whether the counts are old enough to be read again. Newer ones are read again when they are that old. */
  #countIsDue(): boolean {
    const wait = this.#countedAt + COUNT_MS - Date.now();
    clearTimeout(this.#countTimer);
    if (wait > 0) this.#countTimer = setTimeout(() => !document.hidden && this.#refreshIn(0), wait);
    return wait <= 0;
  }

  /** Reads from the beginning. */
  async reload(): Promise<void> {
    await this.#guard(async () => {
      const page = await this.#read(PAGE, null, true);
      this.rows = page.items;
      this.#next = page.next ?? null;
      this.fresh = [];
      this.#gap = false;
      this.ready = true;
    });
  }

  /** The end is in view. */
  async more(): Promise<void> {
    const after = this.#next;
    if (after === null || this.loading) return;
    await this.#guard(async () => {
      const page = await this.#read(PAGE * (this.rows.length > 1000 ? 5 : 1), after, false);
      this.rows = [...this.rows, ...page.items];
      this.#next = page.next ?? null;
    });
  }

  show(): void {
    if (this.#gap) return void this.reload();
    this.rows = [...this.fresh, ...this.rows];
    this.fresh = [];
    if (!this.held && this.rows.length > KEPT + NEWEST) {
      this.rows = this.rows.slice(0, KEPT);
      this.#next = this.rows.at(-1)?.id ?? null;
    }
  }

  async #refresh(ids: Set<string>): Promise<void> {
    if (!this.ready) return;
    // The children of a run come oldest first, so new ones may be on any page.
    if (this.#filter.parent && this.rows.length <= PAGE) return this.reload();
    try {
      if (this.#filter.parent) return await this.#singles([...ids]);
      const page = await this.#read(NEWEST, null, this.#countIsDue());
      const known = new Set(page.items.map((run) => run.id));
      const made = merge(this.rows, page.items, same);
      this.rows = made.rows;
      this.fresh = made.fresh;
      this.#gap = made.gap;
      this.error = null;
      await this.#singles([...ids].filter((id) => !known.has(id)));
      if (this.fresh.length > 0 && !this.held) this.show();
    } catch (caught) {
      this.#caught(caught);
    }
  }

  /** Older rows that changed, and open rows that a state filter no longer lists. */
  async #singles(ids: string[]): Promise<void> {
    const mine = new Map(this.rows.slice(0, SINGLE_AMONG).map((run) => [run.id, run]));
    const stale = ids.filter((id) => mine.has(id) && isOpen(mine.get(id)!.state)).slice(0, SINGLE_MAX);
    if (stale.length === 0) return;
    const path = (id: string) => url(inNs(this.#namespace, 'runs', id));
    const answers = await Promise.allSettled(
      stale.map((id) => api.get<Run>(path(id), undefined, { signal: this.#stop.signal })),
    );
    const read = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    this.rows = merge(this.rows, read, same).rows;
  }

  async #guard(work: () => Promise<void>): Promise<void> {
    this.loading = true;
    this.error = null;
    try {
      await work();
    } catch (caught) {
      this.#caught(caught);
    }
    this.loading = false;
  }

  #caught(caught: unknown): void {
    if (isAbort(caught) || this.#stop.signal.aborted) return;
    this.error = asApiError(caught);
    if (this.error.status === 0) live.suspect();
  }

  /** The same list is kept while this is the same. */
  static identity(namespace: string, filter: Query): string {
    return `${namespace}?${toSearch(filter)}`;
  }
}
