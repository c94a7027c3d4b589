import { expect, test } from 'vitest';
import { cronWords } from '../../src/lib/cron-words';
import { jobWords } from '../../src/lib/schedule-words';
import { spanMs } from '../../src/lib/spans';

test.each([
  ['0 2 * * *', 'daily at 02:00', '每天 02:00'],
  ['30 3 * * 1-5', 'Mon–Fri at 03:30', '周一至周五 03:30'],
  ['0 0 * * 7', 'Sun at 00:00', '周日 00:00'],
  ['*/10 * * * *', 'every 10 min', '每 10 分钟'],
  ['* * * * *', 'every minute', '每分钟'],
  ['0 * * * *', 'every hour at :00', '每小时整点'],
  ['5 */6 * * *', 'every 6 h at :05', '每 6 小时的第 5 分'],
  ['*/15 8-17 * * MON-FRI', 'every 15 min 08:00–17:59, Mon–Fri', '周一至周五，08:00–17:59 每 15 分钟'],
  ['0 8,20 * * *', 'daily at 08:00, 20:00', '每天 08:00、20:00'],
  ['0 1 1 * *', 'monthly on day 1 at 01:00', '每月 1 日 01:00'],
  ['0 1 L * ?', 'last day of each month at 01:00', '每月最后一天 01:00'],
  ['0 0 1 1 *', '1 Jan at 00:00', '1 月 1 日 00:00'],
  ['@daily', 'daily at 00:00', '每天 00:00'],
  ['*/5 * * * * *', 'every 5 s', '每 5 秒'],
  ['0 30 6 * * MON', 'Mon at 06:30', '周一 06:30'],
])('%s in words', (expression, en, zh) => {
  expect(cronWords(expression, 'en')).toBe(en);
  expect(cronWords(expression, 'zh')).toBe(zh);
});

test('Quartz counts weekdays from Sunday as 1', () => {
  expect(cronWords('0 0 9 ? * 2-6', 'en', 'quartz')).toBe('Mon–Fri at 09:00');
});

test.each(['', '61', '0 2 1 * 1', '1-5/2 3 * * *', '0 0 12 ? * 2#1', '0 0 0 1 1 ? 2027', '0 2 * FOO *'])(
  'an unusual expression is not guessed: %j',
  (expression) => expect(cronWords(expression, 'en')).toBeNull(),
);

test('schedules of every kind', () => {
  expect(jobWords({ schedule: { every: '1h30m' } }, 'en')).toBe('every 1 h 30 min');
  expect(jobWords({ schedule: { after_finish: '10m' } }, 'zh')).toBe('上次结束 10 分钟后');
  expect(jobWords({ schedule: { after: { job: 'load' } } }, 'en')).toBe('when a run of load succeeds');
  expect(jobWords({ schedule: { after: { job: 'load', on: 'ended' } } }, 'zh')).toBe(
    '任务 load 的运行结束后',
  );
  expect(jobWords({ schedule: { event: { name: 'paid' } } }, 'en')).toBe('on event paid');
  expect(jobWords({ schedule: { event: { queue: 'orders' } } }, 'zh')).toBe('队列 orders 有消息时');
  expect(jobWords({ schedule: { manual: true } }, 'en')).toBe('started by hand');
  expect(jobWords({}, 'zh')).toBe('手动启动');
  expect(jobWords({ schedule: [{ cron: '0 2 * * *' }, { cron: '1-5/2 3 * * *' }] }, 'en')).toBe(
    'daily at 02:00; cron 1-5/2 3 * * *',
  );
});

test('spans', () => {
  expect(spanMs('500ms')).toBe(500);
  expect(spanMs('1h30m')).toBe(5_400_000);
  expect(spanMs('ten')).toBeNull();
  expect(spanMs('5 parsecs')).toBeNull();
});
