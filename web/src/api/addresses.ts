// The addresses of the REST API. Nothing is imported that `main.ts` should not wait for.
import { toSearch, type Query } from '../lib/paths';

/** A path in a namespace: `inNs(ns, 'jobs', name, 'run')`. Each part is encoded. */
export function inNs(namespace: string, ...parts: string[]): string {
  return ['/api/v1/namespaces', namespace.replaceAll('/', '.'), ...parts.map(encodeURIComponent)].join('/');
}

export function url(path: string, query: Query = {}): string {
  const search = toSearch(query);
  return search ? `${path}?${search}` : path;
}

/** What Now says first; null is all namespaces. */
export function overviewPath(namespace: string | null): string {
  return url('/api/v1/overview', { namespace });
}

export function runPath(namespace: string, id: string): string {
  return inNs(namespace, 'runs', id);
}

/** A run with its events, as its screen shows it. */
export function shownRunPath(namespace: string, id: string): string {
  return `${runPath(namespace, id)}?events=true`;
}

/** The most steps that a page of a graph has. */
const GRAPH_PAGE = 1_000;

/** A page of a graph; `path` is that of the graph of a run or of a job. */
export function graphPage(path: string, after?: string): string {
  return url(path, { limit: GRAPH_PAGE, after });
}
