// What the tiles of workers and nodes are drawn from.
import type { Node, Run, Worker } from '../../api/types';

export const SLOTS_DRAWN = 128;

/** One slot: the run in it, `busy` if another page of runs has it, or free. */
export type Slot = Run | 'busy' | 'free';

/** The slots of a worker: the known runs first, then the slots in use by other runs, then the free ones. */
export function slotsOf(worker: Worker, runs: Run[]): Slot[] {
  const mine = worker.lost ? [] : runs.filter((run) => run.worker === worker.name);
  const busy = worker.lost ? 0 : Math.max(worker.busy, mine.length);
  const count = Math.min(SLOTS_DRAWN, Math.max(worker.slots, mine.length));
  return Array.from({ length: count }, (_, index) => mine[index] ?? (index < busy ? 'busy' : 'free'));
}

/** A smaller difference of a system clock is not worth telling. */
export const OFFSET_TOLD_MS = 500;

/** Versions that differ from the one most nodes have, as during an update. */
export function oddVersions(nodes: Node[]): Set<string> {
  const counts = new Map<string, number>();
  for (const { version, lost_at } of nodes) {
    if (version && !lost_at) counts.set(version, (counts.get(version) ?? 0) + 1);
  }
  const most = [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
  return new Set([...counts.keys()].filter((version) => version !== most));
}
