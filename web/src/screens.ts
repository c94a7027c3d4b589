// Every screen: its place in the rail. Addresses are in `lib/paths.ts`, how screens are loaded in `loaders.ts`.
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
  now: { icon: Activity, key: 'n' },
  approvals: { key: 'a', parent: 'now' },
  incidents: { icon: BellRing, key: 'i' },
  jobs: { icon: ListChecks, key: 'j' },
  jobNew: { parent: 'jobs', right: 'edit' },
  job: { parent: 'jobs' },
  jobEdit: { parent: 'job', right: 'edit' },
  runs: { icon: Play, key: 'r' },
  run: { parent: 'runs' },
  calendar: { icon: CalendarDays, key: 'c' },
  queues: { icon: Inbox, key: 'q' },
  queue: { parent: 'queues' },
  locks: { icon: Lock, key: 'l' },
  workers: { icon: Server, key: 'w' },
  metrics: { key: 'm', parent: 'workers' },
  deadLetters: { icon: MailX, key: 'd' },
  calendars: { icon: CalendarCheck, key: 'b' },
  calendarDays: { parent: 'calendars' },
  descriptors: { icon: Braces, key: 's' },
  descriptor: { parent: 'descriptors' },
  tokens: { icon: KeyRound, key: 't', right: 'admin' },
};

/** The five of the bottom bar; the others are behind "More". */
export const BAR: Screen[] = ['now', 'jobs', 'runs', 'queues'];
export const MORE_ICON = Layers;
