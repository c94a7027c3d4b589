// What can be done to a job, and the command lines that do the same.
import { inNs } from '../../api/client';
import { can } from '../../api/session.svelte';
import type { Job, PauseJob } from '../../api/types';
import { dialogs } from '../../dialogs/open.svelte';
import { t } from '../../i18n/i18n.svelte';
import { commands, option, type Commands } from '../../lib/commands';
import { href, router } from '../../lib/router.svelte';
import { schedulesOf } from '../../lib/schedule-words';
import { shorten } from '../../lib/text';
import type { Action } from '../../shell/actions.svelte';

export interface Ask {
  what: 'run' | 'pause' | 'resume' | 'delete';
  job: Job;
}

/** What the token allows to do to a job. */
export function jobActions(job: Job | null | undefined, ask: (ask: Ask) => void): Action[] {
  if (!job) return [];
  const name = job.name ?? '';
  const label = (what: Ask['what'] | 'edit') => `${t().job[what]} · ${shorten(name, 60)}`;
  const asks = (what: Ask['what'], key?: string) => ({
    label: label(what),
    key,
    run: () => ask({ what, job }),
  });
  const edit = () => router.open(href('jobEdit', { name }));
  return [
    ...(can('run') && !job.task?.ping
      ? [
          asks('run', 'r'),
          ...eventsOf(job).map((event) => ({
            label: `${t().event.send} · ${event}`,
            run: () => void (dialogs.open = { what: 'event', name: event }),
          })),
        ]
      : []),
    ...(can('edit')
      ? [
          asks(job.state === 'paused' ? 'resume' : 'pause', 'p'),
          { label: label('edit'), key: 'e', run: edit },
          asks('delete'),
        ]
      : []),
  ];
}

/** The names of the events that start the job. */
export function eventsOf(job: Pick<Job, 'schedule'>): string[] {
  return [...new Set(schedulesOf(job).flatMap((schedule) => schedule.event?.name ?? []))];
}

export interface Start {
  params?: Record<string, unknown>;
  delay?: string;
  due_at?: string;
  key?: string;
}

export function jobPath(name: string, ...rest: string[]): string {
  return inNs(router.namespace, 'jobs', name, ...rest);
}

/** The words of `punctual job …` and the request of an action. */
export function jobCommands(what: Ask['what'], name: string, body: Start & PauseJob = {}): Commands {
  if (what === 'delete') return commands(['job', 'delete', name], 'DELETE', jobPath(name));
  const options = Object.entries(body).flatMap(([field, value]) =>
    option(field === 'due_at' ? 'at' : field, typeof value === 'string' ? value : JSON.stringify(value)),
  );
  const sent = options.length > 0 ? body : undefined;
  return commands(['job', what, name, ...options], 'POST', jobPath(name, what), sent);
}

export function rollbackCommands(name: string, revision: number): Commands {
  const made = commands(
    ['job', 'rollback', name, '--to', String(revision)],
    'GET',
    jobPath(name, 'revisions', String(revision)),
  );
  const put = commands([], 'PUT', jobPath(name)).curl;
  return { cli: made.cli, curl: `${made.curl} |\n  ${put} -H 'Content-Type: application/json' -d @-` };
}

/** The object in a text, `null` if the text is not a JSON object. */
export function jsonObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text.trim() || '{}');
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
