import { describe, expect, test } from 'vitest';
import type { Attempt, Run, RunEvent } from '../../src/api/types';
import { toSearch } from '../../src/lib/paths';
import { layout, ticks } from '../../src/screens/run/axis';
import { readParams, shownState, tookMs } from '../../src/screens/run/run-view';
import {
  fromAddress,
  isFiltered,
  searchFault,
  statesFor,
  toAction,
  toAddress,
  toRequest,
} from '../../src/screens/runs/filters';
import { isNewer, merge } from '../../src/screens/runs/merge';

const T = Date.parse('2026-11-17T02:00:00.000Z');
const iso = (offset: number) => new Date(T + offset).toISOString();
const read = (search: string) => fromAddress(new URLSearchParams(search));

describe('filters and the address', () => {
  test('every filter survives the address', () => {
    const address =
      'job=a&job=b%2Fc&state=failed&state=timed_out&trigger=manual&range=24h&since=2026-11-17T02%3A00%3A00.000Z&key=k&search=card&parent=4683711365120&children=true';
    const again = toSearch(toAddress(read(address)));
    expect(read(again)).toEqual(read(address));
    expect(read(address)).toMatchObject({
      jobs: ['a', 'b/c'],
      states: ['failed', 'timed_out'],
      range: '24h',
    });
  });

  test('what is not a filter is left out', () => {
    const filter = read('state=broken&trigger=x&range=toString&since=yesterday&job=&parent=x&children=1');
    expect(isFiltered(filter)).toBe(false);
    expect(toSearch(toRequest(filter, T))).toBe('');
  });

  test('states may be separated by commas', () => {
    expect(read('state=failed,timed_out').states).toEqual(['failed', 'timed_out']);
  });

  test('a range becomes an instant, the same for a minute', () => {
    expect(toRequest(read('range=1h'), T + 59_999)).toMatchObject({ since: iso(-3_600_000), until: null });
  });

  test('a search that the server refuses is not sent', () => {
    expect(searchFault('x')).toBe('short');
    expect(searchFault('字')).toBeNull();
    expect(searchFault('x'.repeat(257))).toBe('long');
    expect(toRequest(read('search=x'), T).search).toBeNull();
  });
});

describe('bulk actions', () => {
  test('touch only states that they can change, and nothing newer than the preview', () => {
    expect(toAction('cancel', read('job=a'), T)).toEqual({
      job: ['a'],
      state: ['waiting', 'ready', 'running'],
      until: iso(0),
    });
    expect(toAction('retry', read(''), T)?.state).toEqual(['failed', 'timed_out']);
    expect(toAction('cancel', read('state=failed'), T)).toBeNull();
    expect(statesFor('retry', ['running', 'skipped'])).toEqual(['skipped']);
  });

  test('are not offered for what the server cannot select', () => {
    expect(toAction('cancel', read('trigger=manual'), T)).toBeNull();
    expect(toAction('cancel', read('key=k'), T)).toBeNull();
    expect(toAction('cancel', read('children=true'), T)).toBeNull();
    expect(toAction('cancel', read('parent=7'), T)).toBeNull();
  });
});

describe('a newer page', () => {
  const same = (a: { v?: number }, b: { v?: number }) => a.v === b.v;
  const row = (id: string, v = 0) => ({ id, v });

  test('changes known rows in place and keeps new ones apart', () => {
    const rows = [row('9'), row('8'), row('7')];
    const made = merge(rows, [row('11'), row('10'), row('9', 1), row('8')], same);
    expect(made.rows.map((each) => [each.id, each.v])).toEqual([
      ['9', 1],
      ['8', 0],
      ['7', 0],
    ]);
    expect(made.fresh.map((each) => each.id)).toEqual(['11', '10']);
    expect(made.gap).toBe(false);
  });

  test('without changes the list is the same object', () => {
    const rows = [row('9')];
    expect(merge(rows, [row('9')], same).rows).toBe(rows);
  });

  test('an older row that now matches is not new, and a gap is seen', () => {
    expect(merge([row('9')], [row('9'), row('5')], same).fresh).toEqual([]);
    expect(merge([row('9')], [row('30'), row('29')], same).gap).toBe(true);
    expect(isNewer('10', '9')).toBe(true);
  });
});

const attempt = (number: number, from: number, start: number | null, end: number | null, result = 'failed') =>
  ({
    number,
    token: String(number),
    worker: 'w',
    assigned_at: iso(from),
    started_at: start === null ? null : iso(start),
    finished_at: end === null ? null : iso(end),
    result: end === null ? null : result,
    exit_code: null,
    error: null,
  }) as Attempt;
const run = (fields: Partial<Run>) =>
  ({ id: '1', state: 'running', due_at: iso(0), created_at: iso(0), ...fields }) as Run;
const event = (what: string, at: number, token: string | null = null) =>
  ({ what, at: iso(at), token, run: '1', seq: 1, to: 'running' }) as RunEvent;

describe('the time axis', () => {
  test('waiting and working of each attempt are lengths', () => {
    const axis = layout(
      run({
        state: 'succeeded',
        finished_at: iso(1000),
        attempts: [attempt(1, 50, 100, 400), attempt(2, 600, 600, 1000, 'succeeded')],
      }),
      [],
      T + 9999,
    );
    expect([axis.from, axis.to]).toEqual([T, T + 1000]);
    expect(axis.bars[0]).toMatchObject({
      wait: { from: 0, to: 0.1 },
      work: { from: 0.1, to: 0.4 },
      open: false,
    });
    expect(axis.bars[1]).toMatchObject({ wait: { from: 0.4, to: 0.6 }, work: { from: 0.6, to: 1 } });
    expect(axis.waiting).toBeNull();
    expect(axis.marks).toEqual([]);
  });

  test('an attempt under way ends at now', () => {
    const axis = layout(run({ attempts: [attempt(1, 0, 0, null)] }), [], T + 500);
    expect(axis.bars[0]).toMatchObject({ work: { from: 0, to: 1 }, workMs: 500, open: true });
    expect(axis.marks).toMatchObject([{ kind: 'now', place: 1 }]);
  });

  test('a run that is due later shows the way to its due time', () => {
    const axis = layout(run({ state: 'waiting', due_at: iso(1000), attempts: [] }), [], T + 250);
    expect(axis.waiting).toEqual({ from: 0, to: 0.25, ms: 250 });
    expect(axis.marks.map((mark) => [mark.kind, mark.place])).toEqual([
      ['due', 1],
      ['now', 0.25],
    ]);
  });

  test('cancel, timeout and a lost worker are marks', () => {
    const attempts = [
      attempt(1, 0, 0, 300, 'timed_out'),
      attempt(2, 400, 400, 500, 'lost'),
      attempt(3, 600, 600, 1000, 'cancelled'),
    ];
    const events = [
      event('cancel_asked', 250, '1'),
      event('lost', 500, '2'),
      event('cancel_asked', 900, '3'),
    ];
    const axis = layout(run({ state: 'cancelled', finished_at: iso(1000), attempts }), events, T + 2000);
    expect(axis.marks.map((mark) => [mark.kind, mark.attempt])).toEqual([
      ['timeout', 1],
      ['lost', 2],
      ['cancel', 3],
    ]);
  });

  test('the last checkpoint is a mark of its attempt', () => {
    const checkpoint = { value: { row: 7 }, at: iso(250), attempt: 1 };
    const axis = layout(run({ checkpoint, attempts: [attempt(1, 0, 0, null)] }), [], T + 500);
    expect(axis.marks[0]).toMatchObject({ kind: 'checkpoint', place: 0.5, attempt: 1 });
  });

  test('nothing is outside, whatever the clocks say', () => {
    const strange = run({
      due_at: iso(5000),
      created_at: iso(9000),
      finished_at: iso(100),
      attempts: [attempt(1, 200, 150, 120)],
    });
    const axis = layout(strange, [], T);
    for (const bar of axis.bars)
      for (const place of [bar.wait.from, bar.wait.to, bar.work?.from, bar.work?.to])
        expect(place).toSatisfy((value: number) => value >= 0 && value <= 1);
    expect(axis.to).toBeGreaterThan(axis.from);
  });

  test('ticks are round and few', () => {
    expect(ticks(1000)).toEqual([0, 200, 400, 600, 800, 1000]);
    expect(ticks(100 * 86_400_000).length).toBeLessThanOrEqual(7);
  });
});

describe('a run in words', () => {
  test('a run that is being stopped is cancelling', () => {
    expect(shownState({ state: 'running', reason: 'cancelling: cancelled on request' })).toBe('cancelling');
    expect(shownState({ state: 'running', reason: null })).toBe('running');
  });

  test('its duration counts from the first start', () => {
    expect(
      tookMs(run({ attempts: [attempt(1, 0, 10, 20)], started_at: iso(50), finished_at: iso(100) }), T),
    ).toBe(90);
    expect(tookMs(run({}), T)).toBeNull();
  });

  test('parameters are an object', () => {
    expect(readParams('')).toEqual({ params: {} });
    expect(readParams('{"a":1}')).toEqual({ params: { a: 1 } });
    expect(readParams('[1]')).toEqual({ error: 'object' });
    expect(readParams('{')).toEqual({ error: 'json' });
  });
});
