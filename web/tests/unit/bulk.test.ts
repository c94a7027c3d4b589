import { expect, test } from 'vitest';
import { ApiError } from '../../src/api/client';
import type { Problem } from '../../src/api/types';
import { inBatches, itemByItem, summary } from '../../src/lib/bulk';

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

test('each id has its own result', async () => {
  const results = await itemByItem(['1', '2', '3'], async (id) => {
    if (id === '2') throw new ApiError(409, 'too_late', '', 'about 2');
  });
  expect(results.map((each) => [each.id, each.done]).sort()).toEqual([
    ['1', true],
    ['2', false],
    ['3', true],
  ]);
  expect(summary(results).problems).toEqual([
    { code: 'too_late', message: 'about 2', count: 1, example: '2', ids: ['2'] },
  ]);
});

test('a request that is wrong itself is sent once', async () => {
  const sent: string[] = [];
  const act = async (id: string) => {
    sent.push(id);
    throw new ApiError(422, 'invalid', '', 'no span');
  };
  await expect(itemByItem(['1', '2'], act)).rejects.toThrow('no span');
  expect(sent).toEqual(['1']);
});
