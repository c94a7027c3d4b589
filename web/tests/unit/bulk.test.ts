import { expect, test } from 'vitest';
import type { Problem } from '../../src/api/types';
import { inBatches, summary } from '../../src/lib/bulk';

test('ids are sent in batches of 1,000, a filter once', () => {
  const ids = Array.from({ length: 2001 }, (_, index) => String(index));
  expect(inBatches({ action: 'cancel', ids }).map((each) => each.ids?.length)).toEqual([1000, 1000, 1]);
  expect(inBatches({ action: 'retry', filter: { job: ['a'] } })).toEqual([
    { action: 'retry', filter: { job: ['a'] } },
  ]);
});

test('results are counted by problem', () => {
  const problem = (code: string) => ({ code, message: `about ${code}` }) as Problem;
  const told = summary([
    { id: '1', done: true },
    { id: '2', done: false, problem: problem('wrong_state') },
    { id: '3', done: false, problem: problem('no_such_run') },
    { id: '4', done: false, problem: problem('wrong_state') },
    { id: '5', done: false, run: '6', state: 'skipped' },
  ]);
  expect(told).toMatchObject({ done: 1, refused: 4 });
  expect(told.problems.map((each) => [each.code, each.count, each.example])).toEqual([
    ['wrong_state', 2, '2'],
    ['no_such_run', 1, '3'],
    ['skipped', 1, '6'],
  ]);
});
