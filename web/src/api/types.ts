// The types of the REST API: all of `schema.d.ts`, which `npm run types` makes, and clearer names for three of them.
import type { Run } from './schema';

export type * from './schema';
export type { Day as CalendarDay, Event as RunEvent, State as RunState } from './schema';

/** `GET …/runs/{id}`; `params` are not in every version. */
export type ShownRun = Run & { params?: Record<string, unknown> | null };

/** A page of a list: send `next` as `after` to get the following page. */
export interface Page<T> {
  items: T[];
  next: string | null;
}
