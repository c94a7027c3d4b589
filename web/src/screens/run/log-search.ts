// Search in a log, a slice at a time, so that typing stays smooth in a long log.
import type { Piece } from './ansi';
import type { LogRows } from './log-rows';

export const MATCHES_MAX = 100_000;

export class LogSearch {
  readonly needle: string;
  /** Rows that contain the needle, in order. */
  readonly matches: number[] = [];
  #next = 0;

  constructor(needle: string) {
    this.needle = needle.toLowerCase();
  }

  /** Looks through rows until `now()` reaches `until`. True means that all rows were looked at. */
  step(rows: LogRows, until: number, now: () => number = () => performance.now()): boolean {
    if (this.needle === '') return true;
    while (this.#next < rows.count) {
      // The clock is read once for many rows.
      const end = Math.min(rows.count, this.#next + 256);
      for (; this.#next < end; this.#next += 1) {
        const found = rows.plain(this.#next).toLowerCase().includes(this.needle);
        if (found && this.matches.length < MATCHES_MAX) this.matches.push(this.#next);
      }
      if (now() >= until) return this.#next >= rows.count;
    }
    return true;
  }

  /** A row changed after it was looked at: the open last row grew. */
  rewind(row: number): void {
    if (row >= this.#next) return;
    this.#next = row;
    while (this.matches.length > 0 && this.matches.at(-1)! >= row) this.matches.pop();
  }

  /** The position of the first match at or after a row, or -1. */
  from(row: number): number {
    let [low, high] = [0, this.matches.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.matches[middle]! < row) low = middle + 1;
      else high = middle;
    }
    return low < this.matches.length ? low : -1;
  }
}

export interface MarkedPiece extends Piece {
  hit: boolean;
}

/** Cuts pieces where the needle begins and ends. */
export function marked(parts: Piece[], needle: string): MarkedPiece[] {
  const text = parts.map((part) => part.text).join('');
  const lower = text.toLowerCase();
  // A few letters get longer in lower case: then places would not fit.
  if (needle === '' || lower.length !== text.length) return parts.map((part) => ({ ...part, hit: false }));
  const made: MarkedPiece[] = [];
  let hitFrom = lower.indexOf(needle);
  let at = 0;
  for (const part of parts) {
    const end = at + part.text.length;
    let done = at;
    while (done < end) {
      while (hitFrom >= 0 && hitFrom + needle.length <= done)
        hitFrom = lower.indexOf(needle, hitFrom + needle.length);
      const inside = hitFrom >= 0 && hitFrom <= done;
      const stop = inside ? hitFrom + needle.length : hitFrom < 0 ? end : hitFrom;
      const next = Math.min(end, stop);
      made.push({ text: text.slice(done, next), style: part.style, hit: inside });
      done = next;
    }
    at = end;
  }
  return made;
}
