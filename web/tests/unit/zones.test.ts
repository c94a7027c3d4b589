import { expect, test } from 'vitest';
import { changes, dayStart, isZone, monthDays, offset } from '../../src/lib/zones';

const HOUR = 3_600_000;

test('Berlin leaves an hour out in March and repeats one in October', () => {
  const year = changes('Europe/Berlin', Date.UTC(2026, 0, 1), Date.UTC(2027, 0, 1));
  expect(year).toEqual([
    { at: Date.UTC(2026, 2, 29, 1), before: HOUR, after: 2 * HOUR },
    { at: Date.UTC(2026, 9, 25, 1), before: 2 * HOUR, after: HOUR },
  ]);
});

test('Shanghai and UTC have no such nights', () => {
  for (const zone of ['Asia/Shanghai', 'UTC'])
    expect(changes(zone, Date.UTC(2026, 0, 1), Date.UTC(2027, 0, 1))).toEqual([]);
});

test('half an hour also counts', () => {
  const [first] = changes('Australia/Lord_Howe', Date.UTC(2026, 3, 1), Date.UTC(2026, 4, 1));
  expect((first!.before - first!.after) / HOUR).toBe(0.5);
});

test('a month has its days, the first weekday and the short day', () => {
  const { before, days } = monthDays(2026, 2, 'Europe/Berlin');
  expect([before, days.length]).toEqual([6, 31]); // 1 March 2026 is a Sunday
  const short = days.filter((day) => day.change);
  expect(short.map((day) => day.key)).toEqual(['2026-03-29']);
  expect((short[0]!.end - short[0]!.start) / HOUR).toBe(23);
  expect(days[0]!.start).toBe(Date.UTC(2026, 1, 28, 23));
});

test('days begin at midnight on both sides of a change', () => {
  expect(dayStart(2026, 9, 25, 'Europe/Berlin')).toBe(Date.UTC(2026, 9, 24, 22));
  expect(dayStart(2026, 9, 26, 'Europe/Berlin')).toBe(Date.UTC(2026, 9, 25, 23));
  expect(dayStart(2026, 2, 8, 'America/New_York')).toBe(Date.UTC(2026, 2, 8, 5));
  expect(dayStart(2026, 2, 9, 'America/New_York')).toBe(Date.UTC(2026, 2, 9, 4));
});

test('offsets and names', () => {
  expect(offset(Date.UTC(2026, 0, 1), 'Asia/Kathmandu') / HOUR).toBe(5.75);
  expect([isZone('Asia/Shanghai'), isZone('Mars/Olympus')]).toEqual([true, false]);
});
