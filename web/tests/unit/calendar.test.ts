import { expect, test } from 'vitest';
import type { Fires } from '../../src/api/types';
import { spanName } from '../../src/screens/calendar/words';
import { bucketFor, busiest, daysFor, density, grid, inLines } from '../../src/screens/calendar/grid';
import { addDays, local, mondayOf, startOf } from '../../src/screens/calendar/zone';

const HOUR = 3_600_000;
const at = (text: string) => Date.parse(text);

function fires(buckets: Fires['buckets']): Fires {
  return { from: '', to: '', bucket_ms: HOUR, exact: true, jobs: 1, sampled: null, buckets };
}

test('local days start at local midnight, also on days of a change', () => {
  expect(startOf('2026-11-17', 'UTC')).toBe(at('2026-11-17T00:00:00Z'));
  expect(startOf('2026-03-29', 'Europe/Berlin')).toBe(at('2026-03-28T23:00:00Z'));
  expect(startOf('2026-03-30', 'Europe/Berlin')).toBe(at('2026-03-29T22:00:00Z'));
  expect(startOf('2026-10-25', 'Europe/Berlin')).toBe(at('2026-10-24T22:00:00Z'));
  expect(startOf('2026-10-26', 'Europe/Berlin')).toBe(at('2026-10-25T23:00:00Z'));
  expect(startOf('2026-01-01', 'Asia/Kolkata')).toBe(at('2025-12-31T18:30:00Z'));
  expect(local(at('2026-01-01T00:00:00Z'), 'Asia/Kathmandu')).toEqual({
    day: '2026-01-01',
    hour: 5,
    minute: 45,
  });
});

test('weeks start on Monday', () => {
  expect(mondayOf('2026-11-17')).toBe('2026-11-16');
  expect(mondayOf('2026-11-22')).toBe('2026-11-16');
  expect(addDays('2026-12-31', 1)).toBe('2027-01-01');
});

test('in spring an hour is skipped, in autumn one happens twice', () => {
  const spring = grid('2026-03-23', 7, 'Europe/Berlin', HOUR).at(-1)!;
  expect(spring.cells.map((cell) => cell.shift).filter(Boolean)).toEqual(['skipped']);
  expect(spring.cells[2]).toMatchObject({ shift: 'skipped', fires: 0 });
  const both = fires([
    { at: '2026-10-25T00:00:00.000Z', fires: 3, jobs: [{ namespace: 'a', job: 'x', fires: 3 }] },
    { at: '2026-10-25T01:00:00.000Z', fires: 4, jobs: [{ namespace: 'a', job: 'x', fires: 4 }] },
  ]);
  const autumn = grid('2026-10-19', 7, 'Europe/Berlin', HOUR, both).at(-1)!;
  expect(autumn.cells[2]).toMatchObject({
    shift: 'twice',
    fires: 7,
    jobs: [{ namespace: 'a', job: 'x', fires: 7 }],
  });
  expect(autumn.cells.filter((cell) => cell.shift)).toHaveLength(1);
});

test('every row has 24 cells, and each bucket is in one of them', () => {
  const rows = grid('2026-11-16', 14, 'America/New_York', HOUR);
  expect(rows).toHaveLength(14);
  expect(rows.every((row) => row.cells.length === 24)).toBe(true);
  expect(rows[0]!.cells[0]!.from).toBe(at('2026-11-16T05:00:00Z'));
  expect(rows[13]!.cells[23]!.to).toBe(at('2026-11-30T05:00:00Z'));
});

test('zones with half hours use shorter buckets, and fewer days', () => {
  expect(bucketFor('2026-11-16', 14, 'Europe/Berlin')).toBe(HOUR);
  expect(bucketFor('2026-11-16', 14, 'Asia/Kolkata')).toBe(HOUR / 2);
  expect(bucketFor('2026-11-16', 14, 'Asia/Kathmandu')).toBe(HOUR / 4);
  expect(daysFor(35, 7, HOUR)).toBe(35);
  expect(daysFor(35, 7, HOUR / 2)).toBe(14);
  expect(daysFor(14, 7, HOUR / 4)).toBe(7);
  const rows = grid('2026-11-16', 1, 'Asia/Kolkata', HOUR / 2);
  expect(rows[0]!.cells.every((cell) => cell.to - cell.from === HOUR)).toBe(true);
});

test('past hours keep their outcomes, and the busiest hour is not in the past', () => {
  const rows = grid(
    '2026-11-16',
    7,
    'UTC',
    HOUR,
    fires([
      { at: '2026-11-16T00:00:00.000Z', fires: 900, succeeded: 890, failed: 10, skipped: 2 },
      { at: '2026-11-18T00:00:00.000Z', fires: 60, jobs: [] },
      { at: '2026-11-18T01:00:00.000Z', fires: 5, jobs: [] },
    ]),
  );
  expect(rows[0]!.cells[0]!.past).toEqual({ succeeded: 890, failed: 10, skipped: 2 });
  expect(busiest(rows, at('2026-11-17T12:00:00Z'))).toMatchObject({ day: '2026-11-18', hour: 0 });
  expect(busiest(rows, at('2026-11-18T01:30:00Z'))).toMatchObject({ day: '2026-11-18', hour: 1 });
  expect(busiest(rows, at('2026-11-19T00:00:00Z'))).toBeNull();
});

test('a line is a day, or a week with all its hours', () => {
  const rows = grid('2026-11-16', 14, 'UTC', HOUR);
  expect(inLines(rows, 'days')).toHaveLength(14);
  expect(inLines(rows, 'weeks').map((line) => [line.day, line.cells.length])).toEqual([
    ['2026-11-16', 168],
    ['2026-11-23', 168],
  ]);
});

test('density is on a square-root scale; one fire is visible', () => {
  expect(density(0, 100)).toBe(0);
  expect(density(25, 100)).toBe(50);
  expect(density(100, 100)).toBe(100);
  expect(density(200, 100)).toBe(100);
  expect(density(1, 1_000_000)).toBeGreaterThan(0);
  expect(density(1, 0)).toBe(0);
});

test('a span of days says its year once', () => {
  expect(spanName('2026-11-16', '2026-11-29', 'en')).toBe('16 Nov – 29 Nov 2026');
  expect(spanName('2026-11-16', '2026-11-29', 'zh')).toBe('2026年11月16日 – 11月29日');
  expect(spanName('2026-12-21', '2027-01-03', 'zh')).toBe('2026年12月21日 – 2027年1月3日');
});
