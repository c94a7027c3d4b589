// A list that is read page by page, as its end comes into view. Every loaded page follows live changes.
import { untrack } from 'svelte';
import { query, type Query, type QueryOptions } from './query.svelte';
import type { Page } from './types';

/** The address of the page after `after`. Null as `after`: the first page. */
type Address = (after: string | null) => string;

export class Pages<T> {
  #pages: Query<Page<T>>[] = $state([]);
  #stops: (() => void)[] = [];
  #address: Address = () => '';
  readonly #key: (item: T) => string;
  readonly #options: QueryOptions;

  /** When rows of a page go, its next reading may reach into the page after it: each item is listed once. */
  readonly items: T[] = $derived.by(() => {
    const seen: Record<string, true> = Object.create(null);
    return this.#pages
      .flatMap((page) => page.data?.items ?? [])
      .filter((item) => !seen[this.#key(item)] && (seen[this.#key(item)] = true));
  });
  readonly error = $derived(this.#pages.find((page) => page.error)?.error ?? null);
  /** The first page has been read. */
  readonly ready: boolean = $derived(this.#pages[0]?.data !== undefined);
  readonly next: string | null = $derived(this.#pages.at(-1)?.data?.next ?? null);
  /** The first page is being read for the first time. */
  readonly busy: boolean = $derived(!this.ready && !this.error);

  constructor(key: (item: T) => string, options: QueryOptions) {
    this.#key = key;
    this.#options = options;
  }

  /** Reads the first page of a list; returns what ends it. Call it in an effect. */
  open(address: Address): () => void {
    this.#address = address;
    this.#pages = [];
    this.#read(null);
    return () => {
      for (const stop of this.#stops) stop();
      this.#stops = [];
    };
  }

  /** Reads the page after the last one, if there is one. */
  more = (): void => {
    const last = this.#pages.at(-1);
    if (last?.data?.next && !last.loading) this.#read(last.data.next);
  };

  refresh = (): void => {
    for (const page of this.#pages) void page.refresh();
  };

  #read(after: string | null): void {
    const address = this.#address(after);
    const stop = $effect.root(() => {
      this.#pages.push(query<Page<T>>(() => address, this.#options));
    });
    this.#stops.push(stop);
  }
}

/** The pages of a list while the component lives; the list starts again when its address changes. */
export function pages<T>(address: Address, key: (item: T) => string, options: QueryOptions = {}): Pages<T> {
  const made = new Pages<T>(key, options);
  const first = $derived(address(null));
  $effect(() => {
    void first;
    return untrack(() => made.open(address));
  });
  return made;
}
