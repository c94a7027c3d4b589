// The order of the list of jobs: what needs attention comes first.
import type { Job, LastRun } from '../../api/types';
import { isOpen } from '../../lib/states';

export type Sort = 'attention' | 'name' | 'next' | 'late';
export const SORTS: Sort[] = ['attention', 'name', 'next', 'late'];

const isBad = (run: LastRun) => run.state === 'failed' || run.state === 'timed_out';

/** The 99th percentile of the lateness of the last runs, or null if none started. */
export function lateness(runs: LastRun[]): number | null {
  const late = runs.flatMap((run) => run.late_ms ?? []).sort((a, b) => a - b);
  return late.length === 0 ? null : (late[Math.ceil(late.length * 0.99) - 1] ?? null);
}

/**
 * How much a job needs attention: its newest ended run failed (more for each failure in a row), it is paused,
 * some of its last runs failed. Healthy jobs have 0, finished ones less.
 */
export function urgency(job: Job): number {
  const ended = (job.last ?? []).filter((run) => !isOpen(run.state) && run.state !== 'skipped');
  let streak = 0;
  while (streak < ended.length && isBad(ended[ended.length - 1 - streak]!)) streak += 1;
  const failures = ended.filter(isBad).length;
  const paused = job.state === 'paused' ? 500 : 0;
  if (streak > 0) return 1000 + streak * 10 + failures + paused;
  if (paused) return paused + failures;
  if (failures > 0) return 100 + failures;
  return job.state === 'finished' ? -1 : 0;
}

/** Ranks jobs for a sort; equal ones are ordered by name. */
export function sorted(jobs: Job[], sort: Sort): Job[] {
  const never = Number.MAX_SAFE_INTEGER;
  const value = (job: Job): number => {
    switch (sort) {
      case 'attention':
        return -urgency(job);
      case 'next':
        return job.next_due_at ? Date.parse(job.next_due_at) : never;
      case 'late':
        return -(lateness(job.last ?? []) ?? -1);
      default:
        return 0;
    }
  };
  const ranked = jobs.map((job) => ({ job, value: value(job), name: job.name ?? '' }));
  ranked.sort((a, b) => a.value - b.value || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  return ranked.map((each) => each.job);
}

/** Keeps the places of known rows while the pointer is over the list; new rows go to the end. */
export function inOldOrder(jobs: Job[], order: ReadonlyMap<string, number>): Job[] {
  const place = (job: Job) => order.get(job.name ?? '') ?? Number.MAX_SAFE_INTEGER;
  return jobs.toSorted((a, b) => place(a) - place(b));
}

/** The labels of the loaded jobs as `name=value`, the most frequent first; chosen ones are always there. */
export function labelChoices(
  jobs: Job[],
  chosen: string[],
  most = 12,
): { value: string; count: number | null }[] {
  const counts = new Map<string, number>();
  for (const job of jobs)
    for (const [name, value] of Object.entries(job.labels ?? {}))
      counts.set(`${name}=${value}`, (counts.get(`${name}=${value}`) ?? 0) + 1);
  const frequent = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([label]) => label);
  const shown = [...new Set([...chosen, ...frequent.slice(0, most)])];
  return shown.map((value) => ({ value, count: counts.get(value) ?? null }));
}
