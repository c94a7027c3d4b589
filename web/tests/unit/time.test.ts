import { expect, test } from 'vitest';
import { clock, duration, exact, inZone, relative } from '../../src/lib/time';

test.each([
  [0, '0 ms', '0 毫秒'],
  [999, '999 ms', '999 毫秒'],
  [3_400, '3.4 s', '3.4 秒'],
  [12_000, '12 s', '12 秒'],
  [59_990, '1 min', '1 分钟'],
  [125_000, '2 min 5 s', '2 分钟 5 秒'],
  [3_599_900, '60 min', '60 分钟'],
  [12_000_000, '3 h 20 min', '3 小时 20 分钟'],
  [5 * 86_400_000, '5 d', '5 天'],
  [-1_500, '-1.5 s', '-1.5 秒'],
])('%i ms is %s', (ms, en, zh) => {
  expect(duration(ms, 'en')).toBe(en);
  expect(duration(ms, 'zh')).toBe(zh);
});

test.each([
  [500, 'now', '现在'],
  [3 * 3_600_000, 'in 3 h', '3 小时后'],
  [-12_000, '12 s ago', '12 秒前'],
  [-90_000, '1 min ago', '1 分钟前'],
  [2 * 86_400_000, 'in 2 d', '2 天后'],
])('%i ms from now is %s', (offset, en, zh) => {
  const now = Date.parse('2026-11-17T08:00:00Z');
  expect(relative(now + offset, now, 'en')).toBe(en);
  expect(relative(now + offset, now, 'zh')).toBe(zh);
});

test('an instant is shown in each zone once', () => {
  const at = Date.parse('2026-07-01T00:00:00Z');
  expect(inZone(at, 'Europe/Berlin', 'en')).toContain('02:00:00');
  expect(exact(at, 'en', 'Asia/Shanghai').find((each) => each.zone === 'Asia/Shanghai')?.text).toContain(
    '08:00:00',
  );
  expect(exact(at, 'en', 'UTC').filter((each) => each.zone === 'UTC')).toHaveLength(1);
});

test('an unknown zone is shown as UTC', () => {
  expect(inZone(0, 'Mars/Base', 'en')).toContain('1970');
});

test('a clock has two digits for each part', () => {
  expect(clock(new Date(2026, 10, 17, 2, 5).getTime())).toBe('02:05');
  expect(clock(new Date(2026, 10, 17, 23, 59).getTime())).toBe('23:59');
});
