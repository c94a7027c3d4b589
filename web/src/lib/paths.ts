// The address of every screen. How they are loaded is in `src/loaders.ts`, what they are called in `src/screens.ts`.
export const paths = {
  now: '/',
  approvals: '/approvals',
  incidents: '/incidents',
  jobs: '/jobs',
  jobNew: '/new-job',
  job: '/jobs/:name',
  jobEdit: '/jobs/:name/edit',
  runs: '/runs',
  run: '/runs/:id',
  calendar: '/calendar',
  queues: '/queues',
  queue: '/queues/:name',
  locks: '/locks',
  workers: '/workers',
  metrics: '/metrics',
  deadLetters: '/dead-letters',
  calendars: '/calendars',
  calendarDays: '/calendars/:name',
  descriptors: '/descriptors',
  descriptor: '/descriptors/:name',
  tokens: '/tokens',
} as const;

export type Screen = keyof typeof paths;

type ParamsOf<P extends string> = P extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParamsOf<`/${Rest}`>
  : P extends `${string}:${infer Name}`
    ? Name
    : never;

/** The parameters of a screen's path, such as `{ name: string }` of `job`. */
export type Params<S extends Screen> = { [K in ParamsOf<(typeof paths)[S]>]: string };

export type QueryValue = string | number | boolean | readonly string[] | null | undefined;
export type Query = Record<string, QueryValue>;

export interface Match {
  screen: Screen;
  params: Record<string, string>;
}

/** The path and the query of an address. */
export function parse(hash: string): { path: string; search: string } {
  const text = hash.replace(/^#/, '') || '/';
  const mark = text.indexOf('?');
  return mark < 0 ? { path: text, search: '' } : { path: text.slice(0, mark), search: text.slice(mark + 1) };
}

export const DEFAULT_NAMESPACE = 'default';

export function namespaceOf(query: URLSearchParams): string {
  return query.get('ns') ?? DEFAULT_NAMESPACE;
}

/** Finds the screen of a path, or null. */
export function match(path: string): Match | null {
  const parts = split(path);
  for (const [screen, pattern] of Object.entries(paths) as [Screen, string][]) {
    const params = matchPattern(split(pattern), parts);
    if (params) return { screen, params };
  }
  return null;
}

function split(path: string): string[] {
  return path.split('/').filter(Boolean);
}

function matchPattern(pattern: string[], parts: string[]): Record<string, string> | null {
  if (pattern.length !== parts.length) return null;
  const params: Record<string, string> = {};
  for (const [index, wanted] of pattern.entries()) {
    const part = parts[index] ?? '';
    if (wanted.startsWith(':')) params[wanted.slice(1)] = decode(part);
    else if (wanted !== part) return null;
  }
  return params;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a `%` that is not part of an escape
  }
}

/** The hash address of a screen: `#/jobs/nightly?tab=runs`. Empty values are left out. */
export function address(screen: Screen, params: Record<string, string> = {}, query: Query = {}): string {
  const path = paths[screen].replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ''));
  const search = toSearch(query);
  return `#${path}${search ? `?${search}` : ''}`;
}

export function toSearch(query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    const values = Array.isArray(value) ? value : [value];
    for (const one of values) {
      if (one !== null && one !== undefined && one !== '' && one !== false) search.append(name, String(one));
    }
  }
  return search.toString();
}
