// Every screen: how it is loaded, and its place in the rail. Addresses are in `lib/paths.ts`.
import BellRing from '@lucide/svelte/icons/bell-ring';
import Braces from '@lucide/svelte/icons/braces';
import CalendarDays from '@lucide/svelte/icons/calendar-days';
import CalendarCheck from '@lucide/svelte/icons/calendar-check';
import Inbox from '@lucide/svelte/icons/inbox';
import KeyRound from '@lucide/svelte/icons/key-round';
import Layers from '@lucide/svelte/icons/layers';
import ListChecks from '@lucide/svelte/icons/list-checks';
import Lock from '@lucide/svelte/icons/lock';
import MailX from '@lucide/svelte/icons/mail-x';
import Play from '@lucide/svelte/icons/play';
import Activity from '@lucide/svelte/icons/activity';
import Server from '@lucide/svelte/icons/server';
import type { Component } from 'svelte';
import type { Right } from './api/session.svelte';
import type { Screen } from './lib/paths';

export interface ScreenEntry {
  load: () => Promise<{ default: Component }>;
  /** Shown in the rail with this icon. */
  icon?: Component;
  /** The letter after `g`. The palette leads to a screen that has one. */
  key?: string;
  /** The screen that its breadcrumb leads to. */
  parent?: Screen;
  /** The right that the screen needs besides `read`. */
  right?: Right;
}

export const screens: Record<Screen, ScreenEntry> = {
  now: { load: () => import('./screens/now/Now.svelte'), icon: Activity, key: 'n' },
  approvals: { load: () => import('./screens/approvals/Approvals.svelte'), key: 'a', parent: 'now' },
  incidents: { load: () => import('./screens/incidents/Incidents.svelte'), icon: BellRing, key: 'i' },
  jobs: { load: () => import('./screens/jobs/Jobs.svelte'), icon: ListChecks, key: 'j' },
  jobNew: { load: () => import('./screens/editor/JobNew.svelte'), parent: 'jobs', right: 'edit' },
  job: { load: () => import('./screens/job/Job.svelte'), parent: 'jobs' },
  jobEdit: { load: () => import('./screens/editor/JobEdit.svelte'), parent: 'job', right: 'edit' },
  runs: { load: () => import('./screens/runs/Runs.svelte'), icon: Play, key: 'r' },
  run: { load: () => import('./screens/run/Run.svelte'), parent: 'runs' },
  calendar: { load: () => import('./screens/calendar/Calendar.svelte'), icon: CalendarDays, key: 'c' },
  queues: { load: () => import('./screens/queues/Queues.svelte'), icon: Inbox, key: 'q' },
  queue: { load: () => import('./screens/queue/Queue.svelte'), parent: 'queues' },
  locks: { load: () => import('./screens/locks/Locks.svelte'), icon: Lock, key: 'l' },
  workers: { load: () => import('./screens/workers/Workers.svelte'), icon: Server, key: 'w' },
  metrics: { load: () => import('./screens/metrics/Metrics.svelte'), key: 'm', parent: 'workers' },
  deadLetters: { load: () => import('./screens/dead-letters/DeadLetters.svelte'), icon: MailX, key: 'd' },
  calendars: { load: () => import('./screens/calendars/Calendars.svelte'), icon: CalendarCheck, key: 'b' },
  calendarDays: { load: () => import('./screens/calendars/CalendarDays.svelte'), parent: 'calendars' },
  descriptors: { load: () => import('./screens/descriptors/Descriptors.svelte'), icon: Braces, key: 's' },
  descriptor: { load: () => import('./screens/descriptors/Descriptor.svelte'), parent: 'descriptors' },
  tokens: { load: () => import('./screens/tokens/Tokens.svelte'), icon: KeyRound, key: 't', right: 'admin' },
};

/** The five of the bottom bar; the others are behind "More". */
export const BAR: Screen[] = ['now', 'jobs', 'runs', 'queues'];
export const MORE_ICON = Layers;
