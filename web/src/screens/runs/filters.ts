// The filters of the list of runs: from the address of the page to the query of the request and of bulk actions.
import type { ActOnRuns, RunState, Trigger } from '../../api/types';
import type { Query } from '../../lib/paths';

export const STATES: RunState[] = [
  'waiting',
  'ready',
  'running',
  'succeeded',
  'failed',
  'timed_out',
  'cancelled',
  'skipped',
];
export const TRIGGERS: Trigger[] = [
  'schedule',
  'misfire',
  'manual',
  'submit',
  'retry',
  'parent',
  'workflow',
  'after',
  'event',
  'backfill',
  'ping',
];
/** Relative ranges: they move with the clock, so that a link stays useful. */
export const RANGES = {
  '15m': 900_000,
  '1h': 3_600_000,
  '24h': 86_400_000,
  '7d': 604_800_000,
  '30d': 2_592_000_000,
};
export type Range = keyof typeof RANGES;

export const SEARCH_MIN = 2;
export const SEARCH_MAX = 256;

export interface RunFilter {
  jobs: string[];
  states: RunState[];
  triggers: Trigger[];
  range: Range | null;
  since: string | null;
  until: string | null;
  key: string;
  search: string;
  /** Only the child runs of this run. Empty means any run. */
  parent: string;
  /** Also child runs: parts of split runs and steps of workflows. */
  children: boolean;
}

/** Unknown words in the address are left out. */
export function fromAddress(query: URLSearchParams): RunFilter {
  const range = query.get('range');
  const words = (name: string) => query.getAll(name).flatMap((text) => text.split(','));
  return {
    jobs: [...new Set(query.getAll('job').filter(Boolean))],
    states: STATES.filter((state) => words('state').includes(state)),
    triggers: TRIGGERS.filter((trigger) => words('trigger').includes(trigger)),
    range: range !== null && Object.hasOwn(RANGES, range) ? (range as Range) : null,
    since: instant(query.get('since')),
    until: instant(query.get('until')),
    key: query.get('key') ?? '',
    search: query.get('search') ?? '',
    parent: /^\d{1,19}$/.exec(query.get('parent') ?? '')?.[0] ?? '',
    children: query.get('children') === 'true',
  };
}

export function toAddress(filter: RunFilter): Query {
  return {
    job: filter.jobs,
    state: filter.states,
    trigger: filter.triggers,
    range: filter.range,
    since: filter.since,
    until: filter.until,
    key: filter.key,
    search: filter.search,
    parent: filter.parent,
    children: filter.children || null,
  };
}

export const NO_FILTER: Query = {
  job: null,
  state: null,
  trigger: null,
  range: null,
  since: null,
  until: null,
  key: null,
  search: null,
  parent: null,
  children: null,
};

export function isFiltered(filter: RunFilter): boolean {
  return Object.values(toAddress(filter)).some((value) =>
    Array.isArray(value) ? value.length > 0 : Boolean(value),
  );
}

function instant(text: string | null): string | null {
  const at = text ? Date.parse(text) : NaN;
  return Number.isNaN(at) ? null : new Date(at).toISOString();
}

/** The search text is too short or too long for the server. */
export function searchFault(text: string): 'short' | 'long' | null {
  const bytes = new TextEncoder().encode(text.trim()).length;
  if (bytes === 0) return null;
  return bytes < SEARCH_MIN ? 'short' : bytes > SEARCH_MAX ? 'long' : null;
}

function times(filter: RunFilter, now: number): { since: string | null; until: string | null } {
  // Whole minutes, so that the same filter is the same request for a while.
  if (filter.range) {
    const from = Math.floor((now - RANGES[filter.range]) / 60_000) * 60_000;
    return { since: new Date(from).toISOString(), until: null };
  }
  return { since: filter.since, until: filter.until };
}

/** The query of `GET …/runs`. */
export function toRequest(filter: RunFilter, now: number): Query {
  const search = filter.search.trim();
  return {
    job: filter.jobs,
    state: filter.states.join(','),
    trigger: filter.triggers.join(','),
    ...times(filter, now),
    key: filter.key,
    search: searchFault(search) ? null : search,
    parent: filter.parent,
    children: filter.children || null,
  };
}

const CANCELLABLE: RunState[] = ['waiting', 'ready', 'running'];
const RETRYABLE: RunState[] = ['succeeded', 'failed', 'timed_out', 'cancelled', 'skipped'];
const RETRIED_BY_DEFAULT: RunState[] = ['failed', 'timed_out'];

/** Which of these states an action can change. */
export function statesFor(action: ActOnRuns['action'], states: RunState[]): RunState[] {
  if (states.length === 0) return action === 'cancel' ? CANCELLABLE : RETRIED_BY_DEFAULT;
  const possible = action === 'cancel' ? CANCELLABLE : RETRYABLE;
  return states.filter((state) => possible.includes(state));
}

/**
 * The filter of a bulk action. It ends at `now`, so that a run made after the preview is never hit.
 * Null: the server cannot select exactly these runs (trigger, key and child runs), or none of them can be changed.
 */
export function toAction(
  action: ActOnRuns['action'],
  filter: RunFilter,
  now: number,
): NonNullable<ActOnRuns['filter']> | null {
  const state = statesFor(action, filter.states);
  const isBeyond = filter.triggers.length > 0 || filter.key || filter.parent || filter.children;
  if (isBeyond || searchFault(filter.search) || state.length === 0) return null;
  const { since, until } = times(filter, now);
  return {
    ...(filter.jobs.length > 0 ? { job: filter.jobs } : {}),
    state,
    ...(since ? { since } : {}),
    until: until && Date.parse(until) < now ? until : new Date(now).toISOString(),
    ...(filter.search.trim() ? { search: filter.search.trim() } : {}),
  };
}
