// Buckets of fires as local days and hours.
import type { FireBucket, Fires } from '../../api/types';
import { addDays, local, startOf } from './zone';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const BUCKETS_MAX = 1000; // the server answers no more

export interface Cell {
  day: string;
  hour: number;
  /** The instants that the cell spans. `from === to`: the clocks skip this hour. */
  from: number;
  to: number;
  /** What the clocks do in this hour. */
  shift: 'skipped' | 'twice' | null;
  fires: number;
  jobs: NonNullable<FireBucket['jobs']>;
  /** Null: nothing of it is past. */
  past: { succeeded: number; failed: number; skipped: number } | null;
}

export interface Row {
  day: string;
  cells: Cell[];
}

/** Buckets start at whole hours of UTC. Zones with half hours need shorter ones to be added up to local hours. */
export function bucketFor(first: string, days: number, zone: string): number {
  const minutes = [0, Math.floor(days / 2), days].map(
    (count) => local(Math.floor(startOf(addDays(first, count), zone) / HOUR) * HOUR, zone).minute,
  );
  if (minutes.every((minute) => minute === 0)) return HOUR;
  return minutes.every((minute) => minute % 30 === 0) ? 30 * MINUTE : 15 * MINUTE;
}

/** As many whole `step`s of days as the server counts in one answer. */
export function daysFor(wanted: number, step: number, bucket: number): number {
  const most = Math.floor((BUCKETS_MAX * bucket - 2 * HOUR) / (24 * HOUR));
  return Math.max(step, Math.min(wanted, Math.floor(most / step) * step));
}

/** Rows of 24 cells, also on days that have 23 or 25 hours. */
export function grid(first: string, days: number, zone: string, bucket: number, fires?: Fires): Row[] {
  const found = new Map(fires?.buckets.map((each) => [Date.parse(each.at), each]));
  const rows = Array.from({ length: days }, (_, index) => empty(addDays(first, index)));
  const byDay = new Map(rows.map((row) => [row.day, row]));
  const [from, to] = [startOf(first, zone), startOf(addDays(first, days), zone)];
  for (let at = Math.floor(from / bucket) * bucket; at < to; at += bucket) {
    const { day, hour } = local(at, zone);
    const cell = byDay.get(day)?.cells[hour];
    if (!cell) continue;
    if (cell.from === cell.to) cell.from = at;
    cell.to = at + bucket;
    add(cell, found.get(at));
  }
  for (const { cells } of rows) {
    for (const cell of cells) {
      const length = cell.to - cell.from;
      cell.shift = length < HOUR ? 'skipped' : length > HOUR ? 'twice' : null;
    }
  }
  return rows;
}

function empty(day: string): Row {
  return {
    day,
    cells: Array.from({ length: 24 }, (_, hour) => ({
      day,
      hour,
      from: 0,
      to: 0,
      shift: null,
      fires: 0,
      jobs: [],
      past: null,
    })),
  };
}

function add(cell: Cell, bucket: FireBucket | undefined): void {
  if (!bucket) return;
  cell.fires += bucket.fires;
  for (const job of bucket.jobs ?? []) {
    const known = cell.jobs.find((each) => each.job === job.job && each.namespace === job.namespace);
    if (known) known.fires += job.fires;
    else cell.jobs.push({ ...job });
  }
  cell.jobs.sort((a, b) => b.fires - a.fires);
  if (typeof bucket.succeeded !== 'number') return;
  cell.past ??= { succeeded: 0, failed: 0, skipped: 0 };
  cell.past.succeeded += bucket.succeeded;
  cell.past.failed += bucket.failed ?? 0;
  cell.past.skipped += bucket.skipped ?? 0;
}

/** The lines of the grid: a day each, or a week each with all its hours. */
export function inLines(rows: Row[], view: 'days' | 'weeks'): Row[] {
  if (view === 'days') return rows;
  return Array.from({ length: Math.ceil(rows.length / 7) }, (_, week) => {
    const days = rows.slice(week * 7, week * 7 + 7);
    return { day: days[0]!.day, cells: days.flatMap((row) => row.cells) };
  });
}

/** 0 to 100. The square root keeps quiet hours visible beside a herd; one fire is never invisible. */
export function density(fires: number, most: number): number {
  if (fires <= 0 || most <= 0) return 0;
  return Math.max(8, Math.round(Math.sqrt(Math.min(fires, most) / most) * 100));
}

/** The most crowded hour that is not over. */
export function busiest(rows: Row[], now: number): Cell | null {
  let most: Cell | null = null;
  for (const { cells } of rows) {
    for (const cell of cells) if (cell.to > now && cell.fires > (most?.fires ?? 0)) most = cell;
  }
  return most;
}
