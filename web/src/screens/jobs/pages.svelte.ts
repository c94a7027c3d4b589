// The list of jobs, page by page. Every loaded page follows live changes.
import { inNs, url } from '../../api/client';
import { query, type Query } from '../../api/query.svelte';
import type { Job, Page } from '../../api/types';
import type { Query as Parameters } from '../../lib/paths';

/** `limit` times `last` may be at most 10,000. */
const LIMIT = 300;
export const LAST = 30;

type Pages = Query<Page<Job>>[];

export class JobPages {
  #pages: Pages = $state([]);
  #stops: (() => void)[] = [];
  #address: (after: string | null) => string = () => '';

  readonly items: Job[] = $derived(this.#pages.flatMap((page) => page.data?.items ?? []));
  readonly error = $derived(this.#pages.find((page) => page.error)?.error ?? null);
  /** The first page has been read. */
  readonly ready: boolean = $derived(this.#pages[0]?.data !== undefined);
  readonly next: string | null = $derived(this.#pages.at(-1)?.data?.next ?? null);

  /** Reads the first page of a filter; returns what ends it. Call it in an effect. */
  open(namespace: string, filter: Parameters): () => void {
    this.#address = (after) => url(inNs(namespace, 'jobs'), { ...filter, last: LAST, limit: LIMIT, after });
    this.#pages = [];
    this.#read(null);
    return () => {
      for (const stop of this.#stops) stop();
      this.#stops = [];
    };
  }

  /** Reads the page after the last one, if there is one. */
  more(): void {
    const last = this.#pages.at(-1);
    if (last?.data?.next && !last.loading) this.#read(last.data.next);
  }

  refresh = (): void => {
    for (const page of this.#pages) void page.refresh();
  };

  #read(after: string | null): void {
    const address = this.#address(after);
    const stop = $effect.root(() => {
      this.#pages.push(query<Page<Job>>(() => address, { topics: ['jobs', 'runs'] }));
    });
    this.#stops.push(stop);
  }
}
