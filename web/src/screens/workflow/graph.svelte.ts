// Reads the graph of a workflow, page by page. Every page follows live changes.
import { graphPage } from '../../api/addresses';
import type { Graph } from '../../api/types';
import { query, type Query, type QueryOptions } from '../../api/query.svelte';

/** A workflow has at most 5,000 steps. */
const PAGES = 5;

export class WholeGraph {
  #pages: Query<Graph>[] = [];
  readonly error = $derived(this.#pages.find((page) => page.error)?.error ?? null);
  /** The task is no workflow: there is nothing to draw. */
  readonly missing: boolean = $derived(this.error?.code === 'not_a_workflow');
  /** All pages together; undefined until the first one is read. */
  readonly data: Graph | undefined = $derived.by(() => {
    const read = this.#pages.flatMap((page) => page.data ?? []);
    if (read.length < 2) return read[0];
    const [first] = read as [Graph];
    return {
      ...first,
      nodes: read.flatMap((page) => page.nodes),
      edges: read.flatMap((page) => page.edges),
    };
  });

  constructor(address: () => string | null, options: QueryOptions) {
    for (let page = 0; page < PAGES; page += 1) {
      const before = this.#pages.at(-1);
      const next = () => {
        const path = address();
        if (path === null || !before) return path && graphPage(path);
        return before.data?.next ? graphPage(path, before.data.next) : null;
      };
      this.#pages.push(query<Graph>(next, options));
    }
  }

  refresh = (): void => {
    for (const page of this.#pages) void page.refresh();
  };
}
