import { expect, test } from 'vitest';
import type { Job, LastRun } from '../../src/api/types';
import { inOldOrder, labelChoices, lateness, sorted, urgency } from '../../src/screens/jobs/attention';
import { en } from '../../src/i18n/en';
import { zh } from '../../src/i18n/zh';
import { pauseBody, pauseLine } from '../../src/screens/job/pause';
import { fromLocal, toLocal } from '../../src/lib/time';
import { cells, parseMonth, writeMonth } from '../../src/screens/job/month';
import { monthDays } from '../../src/lib/zones';

const run = (state: LastRun['state'], late_ms: number | null = 1): LastRun => ({
  id: Math.random().toString(),
  state,
  due_at: '2026-01-01T00:00:00Z',
  took_ms: 1,
  late_ms,
});
const job = (name: string, states: LastRun['state'][], more: Partial<Job> = {}): Job =>
  ({ id: name, name, state: 'active', last: states.map((state) => run(state)), ...more }) as Job;

test('failing jobs come first, then paused ones, then those with old failures, finished ones last', () => {
  const jobs = [
    job('done', ['succeeded'], { state: 'finished' }),
    job('well', ['succeeded', 'succeeded']),
    job('once', ['failed', 'succeeded']),
    job('idle', ['succeeded'], { state: 'paused' }),
    job('bad', ['succeeded', 'failed', 'running']),
    job('worse', ['failed', 'timed_out', 'skipped']),
  ];
  expect(sorted(jobs, 'attention').map((each) => each.name)).toEqual([
    'worse',
    'bad',
    'idle',
    'once',
    'well',
    'done',
  ]);
  expect(urgency(job('new', []))).toBe(0);
});

test('other orders, and rows that stay while the pointer is over them', () => {
  const jobs = [job('b', []), job('a', [], { next_due_at: '2026-01-02T00:00:00Z' })];
  expect(sorted(jobs, 'name').map((each) => each.name)).toEqual(['a', 'b']);
  expect(sorted(jobs, 'next').map((each) => each.name)).toEqual(['a', 'b']);
  const order = new Map([
    ['b', 0],
    ['a', 1],
  ]);
  expect(inOldOrder([job('c', []), ...jobs.toReversed()], order).map((each) => each.name)).toEqual([
    'b',
    'a',
    'c',
  ]);
});

test('lateness is that of runs that started', () => {
  expect(lateness([run('skipped', null), run('succeeded', 4), run('succeeded', 9)])).toBe(9);
  expect(lateness([])).toBeNull();
});

test('labels by frequency; the chosen one is there though no job has it', () => {
  const jobs = [job('a', [], { labels: { team: 'x' } }), job('b', [], { labels: { team: 'x', tier: 'y' } })];
  expect(labelChoices(jobs, ['team=z'])).toEqual([
    { value: 'team=z', count: null },
    { value: 'team=x', count: 2 },
    { value: 'tier=y', count: 1 },
  ]);
});

test('a month counts fires by day and estimates what was not listed', () => {
  const { days } = monthDays(2026, 2, 'UTC');
  const hour = 3_600_000;
  const fires = Array.from({ length: 48 }, (_, index) => {
    const due_at = new Date(Date.UTC(2026, 2, 1) + index * hour).toISOString();
    return { due_at, local: due_at, wake_at: due_at };
  });
  const exact = cells(days, fires, false, undefined);
  expect([exact[0]!.fires, exact[1]!.fires, exact[2]!.fires]).toEqual([24, 24, 0]);
  const guessed = cells(days, fires, true, undefined);
  const cut = cells(days, fires.slice(0, 30), true, undefined);
  expect(cut.slice(0, 3).map((day) => day.fires)).toEqual([24, 24, 24]);
  expect([guessed[0]!.estimated, guessed[2]!.estimated, guessed[2]!.fires]).toEqual([false, true, 24]);
});

test('months in the address', () => {
  expect(parseMonth('2026-03')).toEqual([2026, 2]);
  expect([parseMonth('2026-13'), parseMonth('march')]).toEqual([null, null]);
  expect([writeMonth(2026, 12), writeMonth(2026, -1)]).toEqual(['2027-01', '2025-12']);
});

test('a pause is asked for with what was typed', () => {
  expect(pauseBody('  ', '')).toEqual({});
  expect(pauseBody(' the bank is closed ', '')).toEqual({ reason: 'the bank is closed' });
  const until = pauseBody('', '2026-12-27T06:00').until;
  expect(until).toBe(new Date(2026, 11, 27, 6).toISOString());
  expect(toLocal(until)).toBe('2026-12-27T06:00');
  expect([fromLocal('soon'), toLocal(null)]).toEqual([null, '']);
});

test('a list tells why a job is paused, until when and by whom', () => {
  const since = new Date(2026, 10, 19, 3, 54).toISOString();
  const until = new Date(2026, 11, 27, 6).toISOString();
  const pause = { reason: 'the bank\u202e is closed', by: 'ops', since, until };
  expect(pauseLine(pause, en.job, 'en')).toBe(
    'by ops · until 27 Dec, 06:00 · the bank\\u{202e} is closed · since 19 Nov, 03:54',
  );
  expect(pauseLine({ reason: '', since }, en.job, 'en')).toBe('since 19 Nov, 03:54');
  expect(pauseLine(pause, zh.job, 'zh')).toMatch(
    /^操作人 ops · 到 12月27日 06:00 止 · the bank.* · 11月19日 03:54 起$/,
  );
  expect(pauseLine({ ...pause, reason: 'x'.repeat(1024) }, en.job, 'en').length).toBeLessThan(150);
});
