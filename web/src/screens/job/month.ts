// The days of the month view: past days by outcome, coming days by fires.
import type { Fire, JobStatistics } from '../../api/types';
import type { MonthDay } from '../../lib/zones';

export interface DayCell extends MonthDay {
  /** Coming fires of the day. */
  fires: number;
  /** The list of fires ended before this day: the number is an estimate. */
  estimated: boolean;
  /** Ended runs of the day, and how many of them failed. */
  runs: number;
  failed: number;
}

/** Counts fires and outcomes for each day. `full` means that the list of fires was cut off at its end. */
export function cells(
  days: MonthDay[],
  fires: Fire[],
  full: boolean,
  stats: JobStatistics | undefined,
): DayCell[] {
  const dues = fires.map((fire) => Date.parse(fire.due_at));
  const [first, last] = [dues[0], dues.at(-1)];
  const period =
    first === undefined || last === undefined || dues.length < 2 ? null : (last - first) / (dues.length - 1);
  return days.map((day) => {
    const inDay = (at: number) => at >= day.start && at < day.end;
    let count = dues.filter(inDay).length;
    // From the last listed fire on, the rate so far is the best guess.
    const estimated = full && period !== null && last !== undefined && day.end > last;
    if (estimated) {
      // On the day of the last listed fire, that one is counted already.
      count += inDay(last)
        ? Math.ceil((day.end - last) / period) - 1
        : Math.round((day.end - day.start) / period);
    }
    const past = stats?.buckets.filter((bucket) => inDay(Date.parse(bucket.at))) ?? [];
    const sum = (value: (bucket: JobStatistics['buckets'][number]) => number) =>
      past.reduce((total, bucket) => total + value(bucket), 0);
    return {
      ...day,
      fires: count,
      estimated,
      runs: sum((bucket) => bucket.runs),
      failed: sum((bucket) => bucket.failed + bucket.timed_out),
    };
  });
}

/** `2026-03` as year and month (0 is January); null if it is none. */
export function parseMonth(text: string): [number, number] | null {
  const found = /^(\d{4})-(\d{2})$/.exec(text);
  if (!found) return null;
  const [year, month] = [Number(found[1]), Number(found[2]) - 1];
  return month >= 0 && month < 12 ? [year, month] : null;
}

export function writeMonth(year: number, month: number): string {
  return new Date(Date.UTC(year, month, 1)).toISOString().slice(0, 7);
}
