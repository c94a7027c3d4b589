// How each screen is loaded. The rest about screens is in `screens.ts`.
import type { Component } from 'svelte';
import type { Screen } from './lib/paths';

type Loaded = Promise<{ default: Component }>;

/** Now is not here: it comes with the frame. */
const loaders: Partial<Record<Screen, () => Loaded>> = {
  approvals: () => import('./screens/approvals/Approvals.svelte'),
  incidents: () => import('./screens/incidents/Incidents.svelte'),
  jobs: () => import('./screens/jobs/Jobs.svelte'),
  jobNew: () => import('./screens/editor/JobNew.svelte'),
  job: () => import('./screens/job/Job.svelte'),
  jobEdit: () => import('./screens/editor/JobEdit.svelte'),
  runs: () => import('./screens/runs/Runs.svelte'),
  run: () => import('./screens/run/Run.svelte'),
  calendar: () => import('./screens/calendar/Calendar.svelte'),
  queues: () => import('./screens/queues/Queues.svelte'),
  queue: () => import('./screens/queue/Queue.svelte'),
  locks: () => import('./screens/locks/Locks.svelte'),
  workers: () => import('./screens/workers/Workers.svelte'),
  metrics: () => import('./screens/metrics/Metrics.svelte'),
  deadLetters: () => import('./screens/dead-letters/DeadLetters.svelte'),
  calendars: () => import('./screens/calendars/Calendars.svelte'),
  calendarDays: () => import('./screens/calendars/CalendarDays.svelte'),
  descriptors: () => import('./screens/descriptors/Descriptors.svelte'),
  descriptor: () => import('./screens/descriptors/Descriptor.svelte'),
  tokens: () => import('./screens/tokens/Tokens.svelte'),
};

const begun = new Map<Screen, Loaded>();

/** Loads a screen, with its styles, once. Null: it need not be loaded. */
export function load(screen: Screen): Loaded | null {
  const loader = loaders[screen];
  if (!loader) return null;
  const loading = begun.get(screen) ?? loader();
  begun.set(screen, loading);
  loading.catch(() => begun.delete(screen)); // so that the next call tries again
  return loading;
}
