// Merges a newer first page into the list on screen: known rows change in place, new rows wait.
interface Row {
  id: string;
}

export interface Merged<R extends Row> {
  rows: R[];
  /** New rows, newest first. */
  fresh: R[];
  /** The newer page does not reach the list: rows between them are unknown. */
  gap: boolean;
}

export function merge<R extends Row>(rows: R[], page: R[], same: (a: R, b: R) => boolean): Merged<R> {
  const newer = new Map(page.map((row) => [row.id, row]));
  let changed = false;
  let met = false;
  const places = new Set<string>();
  // The rows of a page are at the top of the list, or close to it.
  const joined = rows.map((row) => {
    const now = newer.get(row.id);
    if (!now) return row;
    met = true;
    places.add(row.id);
    if (same(row, now)) return row;
    changed = true;
    return now;
  });
  const newest = rows[0];
  const fresh = page.filter((row) => !places.has(row.id) && (!newest || isNewer(row.id, newest.id)));
  return { rows: changed ? joined : rows, fresh, gap: !met && rows.length > 0 && page.length > 0 };
}

/** Ids are decimal numbers that grow with time and may exceed 2^53. */
export function isNewer(a: string, b: string): boolean {
  return a.length === b.length ? a > b : a.length > b.length;
}
