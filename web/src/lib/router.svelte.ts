// The hash router: the address is the only state, so back, reload and middle click work.
import {
  address,
  DEFAULT_NAMESPACE,
  match,
  namespaceOf,
  parse,
  toSearch,
  type Match,
  type Params,
  type Query,
  type Screen,
} from './paths';

class Router {
  #hash = $state(location.hash);
  readonly #parts = $derived(parse(this.#hash));
  /** The screen and its path parameters. Null means that the address is unknown. */
  readonly match: Match | null = $derived(match(this.#parts.path));
  readonly query: URLSearchParams = $derived(new URLSearchParams(this.#parts.search));
  readonly namespace: string = $derived(namespaceOf(this.query));

  constructor() {
    addEventListener('hashchange', () => (this.#hash = location.hash));
  }

  /** A path parameter of the open screen. */
  param(name: string): string {
    return this.match?.params[name] ?? '';
  }

  /** A query parameter of the open screen, or `otherwise`. */
  get(name: string, otherwise = ''): string {
    return this.query.get(name) ?? otherwise;
  }

  all(name: string): string[] {
    return this.query.getAll(name);
  }

  /** Changes query parameters of the open screen. `replace` adds no entry to the history (use it while typing). */
  set(changes: Query, { replace = false } = {}): void {
    const hash = this.with(changes);
    if (replace) history.replaceState(null, '', hash);
    else history.pushState(null, '', hash);
    this.#hash = hash;
  }

  /** The address of the open screen with other query parameters, for links. */
  with(changes: Query): string {
    const query: Query = {};
    for (const name of this.query.keys()) query[name] = this.query.getAll(name);
    const search = toSearch({ ...query, ...changes });
    return `#${this.#parts.path}${search ? `?${search}` : ''}`;
  }

  open(hash: string): void {
    if (hash === location.hash) return;
    location.hash = hash;
    this.#hash = hash;
  }
}

export const router = new Router();

type Args<S extends Screen> = keyof Params<S> extends never
  ? [params?: Record<string, never> | null, query?: Query]
  : [params: Params<S>, query?: Query];

/** The address of a screen in the open namespace: `href('job', { name }, { tab: 'runs' })`. */
export function href<S extends Screen>(screen: S, ...[params, query]: Args<S>): string {
  const ns = router.namespace === DEFAULT_NAMESPACE ? null : router.namespace;
  return address(screen, params ?? {}, { ns, ...query });
}

/** `ns` for the query of a link to a thing in another namespace: `href('job', { name }, inNamespace(ns))`. */
export function inNamespace(namespace: string | null | undefined): Query {
  return namespace && namespace !== DEFAULT_NAMESPACE ? { ns: namespace } : { ns: null };
}
