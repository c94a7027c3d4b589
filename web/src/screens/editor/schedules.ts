// Schedules of a job file: one map, or a list of maps.
import { parse, withField } from './document';

export const KINDS = ['cron', 'every', 'after_finish', 'at', 'after', 'event', 'manual'] as const;
export type Kind = (typeof KINDS)[number];

const FIRST: Record<Exclude<Kind, 'manual'>, unknown> = {
  cron: '0 2 * * *',
  every: '5m',
  after_finish: '10m',
  at: '2030-01-01T08:00:00Z',
  after: { job: 'load' },
  event: { name: 'order-paid' },
};

/** Whether a clock starts the job. */
export const hasClock = (kind: Kind) => !['after', 'event', 'manual'].includes(kind);

export function kindOf(schedule: Record<string, unknown> | null | undefined): Kind {
  return KINDS.find((kind) => schedule && kind in schedule) ?? 'manual';
}

/** The schedule as another kind; what fits both is kept. */
export function withKind(
  schedule: Record<string, unknown>,
  kind: Kind,
  zone: string,
): Record<string, unknown> {
  if (kind === 'manual') return { manual: true };
  const fitting = hasClock(kind) ? ['jitter', 'start', 'end', 'max_runs', 'calendar'] : ['start', 'end'];
  const kept = Object.fromEntries(Object.entries(schedule).filter(([key]) => fitting.includes(key)));
  if (kind === 'after_finish') delete kept.calendar;
  return { [kind]: FIRST[kind], ...(kind === 'cron' ? { timezone: zone } : {}), ...kept };
}

/** Adds a schedule; two make a list. */
export function addSchedule(text: string): string {
  const now = parse(text).value?.schedule;
  const made = { every: '5m' };
  if (!now) return withField(text, ['schedule'], made);
  if (Array.isArray(now)) return withField(text, ['schedule', now.length], made);
  return withField(text, ['schedule'], [now, made]);
}

/** Takes a schedule away; the last one of a list becomes a map again. */
export function removeSchedule(text: string, index: number): string {
  const now = parse(text).value?.schedule;
  if (!Array.isArray(now)) return withField(text, ['schedule'], undefined);
  const rest = now.filter((_, at) => at !== index);
  return withField(text, ['schedule'], rest.length === 1 ? rest[0] : rest.length === 0 ? undefined : rest);
}
