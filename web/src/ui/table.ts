// The columns of `Table.svelte`, and which rows it has to draw.
export interface Column {
  id: string;
  title: string;
  /** A grid track: `120px`, `minmax(160px, 2fr)`. */
  width: string;
  align?: 'left' | 'right';
  /** The column is left out below this window width. */
  from?: number;
}

export interface Window {
  first: number;
  last: number;
}

/** The rows in view with `spare` rows on each side; `last` is exclusive. */
export function visibleRows(
  scrollTop: number,
  height: number,
  row: number,
  count: number,
  spare: number,
): Window {
  const first = Math.max(0, Math.floor(scrollTop / row) - spare);
  const last = Math.min(count, Math.ceil((scrollTop + height) / row) + spare);
  return { first: Math.min(first, last), last };
}

/**
 * Gives each row in view a slot: an element of the page. A row keeps its slot while it is in view; a row that comes into
 * view takes the slot of a row that left, so that scrolling changes texts instead of making elements.
 */
export class Slots {
  #slots = new Map<string, number>();
  #made = 0;

  /** The slots of these rows, in their order. The slot `kept` goes with its row. */
  take(keys: string[], kept = -1): number[] {
    const shown = new Set(keys);
    const free: number[] = [];
    for (const [key, slot] of this.#slots) if (!shown.has(key) && slot !== kept) free.push(slot);
    // Slots are given in the order of the page: after a leap no element moves.
    const slots = keys.map((key) => this.#slots.get(key) ?? free.shift() ?? this.#made++);
    this.#slots = new Map(keys.map((key, index) => [key, slots[index]!]));
    return slots;
  }
}
