// The steps of a workflow's run on one time axis: from the first decision to the last end or to now, in fractions of the
// width. Waiting for a worker is separate from running.
import type { GraphNode } from '../../api/types';
import { ticks } from '../run/axis';
import type { Box, Group } from './fold';
import { stepTimes, type StepTimes } from './steps';

export interface Span {
  from: number;
  to: number;
}

export interface GanttRow {
  box: Box;
  /** How many sub-workflows it is in. */
  depth: number;
  wait: Span | null;
  work: Span | null;
  waitMs: number | null;
  ranMs: number | null;
}

export interface Gantt {
  rows: GanttRow[];
  ticks: { place: number; ms: number }[];
}

export function gantt(group: Group, steps: readonly GraphNode[], now: () => number): Gantt {
  const all = steps.map((step) => stepTimes(step, now)).filter((times) => times.decided !== null);
  const from = Math.min(...all.map((times) => times.decided!));
  const to = Math.max(from + 1, ...all.map((times) => end(times, now)));
  const span = all.length > 0 ? to - from : 1;
  const place = (at: number) => Math.min(1, Math.max(0, (at - from) / span));
  return {
    rows: boxes(group).map(({ box, depth }) => row(box, depth, place, now)),
    ticks: all.length > 0 ? ticks(span).map((ms) => ({ ms, place: ms / span })) : [],
  };
}

function end(times: StepTimes, now: () => number): number {
  return times.ended ?? now();
}

/** The boxes from left to right; what is unfolded comes after its own box. */
function boxes(group: Group, depth = 0): { box: Box; depth: number }[] {
  return group.columns
    .flat()
    .flatMap((box) => [{ box, depth }, ...(box.inner ? boxes(box.inner, depth + 1) : [])]);
}

function row(box: Box, depth: number, place: (at: number) => number, now: () => number): GanttRow {
  const times = box.step ? stepTimes(box.step, now) : together(box.folded, now);
  const { decided, started, waitMs, ranMs } = times;
  const stop = end(times, now);
  return {
    box,
    depth,
    wait: decided === null ? null : { from: place(decided), to: place(started ?? stop) },
    work: started === null ? null : { from: place(started), to: place(stop) },
    waitMs,
    ranMs,
  };
}

/** Folded levels: from the first decision to the last end. */
function together(steps: readonly GraphNode[], now: () => number): StepTimes {
  const all = steps.map((step) => stepTimes(step, now)).filter((times) => times.decided !== null);
  if (all.length === 0) return { decided: null, started: null, ended: null, waitMs: null, ranMs: null };
  const decided = Math.min(...all.map((times) => times.decided!));
  const starts = all.flatMap((times) => times.started ?? []);
  const started = starts.length > 0 ? Math.min(...starts) : null;
  const ended = Math.max(...all.map((times) => end(times, now)));
  const waitMs = Math.max(0, (started ?? ended) - decided);
  return { decided, started, ended, waitMs, ranMs: started === null ? null : ended - started };
}
