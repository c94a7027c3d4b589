// The time axis of a run: from its due time to its end or to now, one bar per attempt, in fractions of the width.
import type { Attempt, Run, RunEvent } from '../../api/types';

export interface Bar {
  attempt: Attempt;
  /** From the due time or the end of the attempt before. */
  wait: { from: number; to: number };
  /** Null: the attempt has not started. */
  work: { from: number; to: number } | null;
  waitMs: number;
  workMs: number | null;
  /** The attempt is under way: its bar ends at now. */
  open: boolean;
}

export interface Mark {
  kind: 'due' | 'now' | 'cancel' | 'timeout' | 'lost' | 'checkpoint';
  at: number;
  place: number;
  /** The attempt it belongs to; null: the whole axis. */
  attempt: number | null;
}

export interface Axis {
  from: number;
  to: number;
  bars: Bar[];
  /** A run that waits now: since the last attempt, or since it was due or made. */
  waiting: { from: number; to: number; ms: number } | null;
  marks: Mark[];
  ticks: { place: number; ms: number }[];
}

const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000,
  600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000,
];
const DAY = 86_400_000;

function time(text: string | null | undefined): number | null {
  return text ? Date.parse(text) : null;
}

export function layout(run: Run, events: RunEvent[], now: number): Axis {
  const due = Date.parse(run.due_at);
  const created = Date.parse(run.created_at);
  const finished = time(run.finished_at);
  const attempts = run.attempts ?? [];
  // A manual run with an earlier due time waits from the request on.
  const begin =
    due > created && due > (time(attempts[0]?.assigned_at) ?? finished ?? now)
      ? created
      : Math.max(due, Math.min(created, finished ?? now));
  const from = Math.min(begin, ...attempts.map((attempt) => Date.parse(attempt.assigned_at)));
  const ends = attempts.map((attempt) => time(attempt.finished_at) ?? now);
  const isWaiting = finished === null && !attempts.some((attempt) => !attempt.finished_at);
  const to = Math.max(from + 1, finished ?? now, isWaiting && due > now ? due : 0, ...ends);
  const place = (at: number) => Math.min(1, Math.max(0, (at - from) / (to - from)));

  let free = from;
  const bars = attempts.map((attempt): Bar => {
    const start = time(attempt.started_at);
    const end = time(attempt.finished_at);
    const waitEnd = start ?? end ?? now;
    const bar: Bar = {
      attempt,
      wait: { from: place(free), to: place(waitEnd) },
      work: start === null ? null : { from: place(start), to: place(end ?? now) },
      waitMs: Math.max(0, waitEnd - free),
      workMs: start === null ? null : Math.max(0, (end ?? now) - start),
      open: end === null,
    };
    free = end ?? now;
    return bar;
  });
  return {
    from,
    to,
    bars,
    waiting: isWaiting ? { from: place(free), to: place(now), ms: Math.max(0, now - free) } : null,
    marks: [
      ...checkpointOf(run, place),
      ...marksOf(events, attempts, place, { due, from, to, now, finished }),
    ],
    ticks: ticks(to - from).map((ms) => ({ ms, place: ms / (to - from) })),
  };
}

/** The last checkpoint: where the next attempt continues. Earlier ones are not kept. */
function checkpointOf({ checkpoint }: Run, place: (at: number) => number): Mark[] {
  if (!checkpoint) return [];
  const at = Date.parse(checkpoint.at);
  return [{ kind: 'checkpoint', at, place: place(at), attempt: checkpoint.attempt }];
}

interface Times {
  due: number;
  from: number;
  to: number;
  now: number;
  finished: number | null;
}

function marksOf(
  events: RunEvent[],
  attempts: Attempt[],
  place: (at: number) => number,
  times: Times,
): Mark[] {
  const marks: Mark[] = [];
  const owner = (token: string | null | undefined) =>
    attempts.find((attempt) => attempt.token === token)?.number ?? null;
  for (const event of events) {
    const at = Date.parse(event.at);
    const attempt = owner(event.token);
    const result = attempts.find((each) => each.number === attempt)?.result;
    if (event.what === 'cancel_asked')
      marks.push({ kind: result === 'timed_out' ? 'timeout' : 'cancel', at, place: place(at), attempt });
    else if (event.what === 'lost') marks.push({ kind: 'lost', at, place: place(at), attempt });
  }
  for (const attempt of attempts) {
    const known = marks.some((mark) => mark.attempt === attempt.number && mark.kind === 'timeout');
    const at = time(attempt.finished_at);
    if (attempt.result === 'timed_out' && !known && at !== null)
      marks.push({ kind: 'timeout', at, place: place(at), attempt: attempt.number });
  }
  if (times.due > times.from && times.due <= times.to)
    marks.push({ kind: 'due', at: times.due, place: place(times.due), attempt: null });
  if (times.finished === null)
    marks.push({ kind: 'now', at: times.now, place: place(times.now), attempt: null });
  return marks;
}

/** Round offsets from the start: at most seven, the first is 0. */
export function ticks(span: number, most = 6): number[] {
  let step = STEPS_MS.find((each) => span / each <= most) ?? DAY;
  while (span / step > most) step *= 2;
  const made: number[] = [];
  for (let at = 0; at <= span; at += step) made.push(at);
  return made;
}
