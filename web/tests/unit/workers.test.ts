import { expect, test } from 'vitest';
import type { Node, Run, Worker } from '../../src/api/types';
import { clockOffsets, oddVersions, slotsOf } from '../../src/screens/workers/cluster';

const worker = (extra: Partial<Worker>) => ({ name: 'a', slots: 4, busy: 0, ...extra }) as Worker;
const run = (id: string, on: string) => ({ id, worker: on }) as Run;
const node = (name: string, now: string, extra: Partial<Node> = {}) =>
  ({ name, now, version: '1', lost_at: null, failed: null, ...extra }) as Node;

test('slots show known runs, then busy ones, then free ones', () => {
  const runs = [run('1', 'a'), run('2', 'b')];
  expect(slotsOf(worker({ busy: 2 }), runs)).toEqual([runs[0], 'busy', 'free', 'free']);
  expect(slotsOf(worker({ busy: 2, lost: true }), runs)).toEqual(['free', 'free', 'free', 'free']);
  // The list of runs may be newer than the count.
  expect(slotsOf(worker({ slots: 1, busy: 0 }), [run('1', 'a')])).toHaveLength(1);
  expect(slotsOf(worker({ slots: 100_000 }), [])).toHaveLength(128);
});

test('a clock is compared with the middle one; lost nodes do not count', () => {
  const offsets = clockOffsets([
    node('n1', '2026-11-17T00:00:00.000Z'),
    node('n2', '2026-11-17T00:00:00.010Z'),
    node('n3', '2026-11-17T00:00:01.810Z'),
    node('n4', '2026-11-16T00:00:00.000Z', { lost_at: '2026-11-16T00:00:00.000Z' }),
  ]);
  expect([...offsets]).toEqual([
    ['n1', -10],
    ['n2', 0],
    ['n3', 1800],
  ]);
});

test('the version that few nodes have is told apart', () => {
  const now = '2026-11-17T00:00:00.000Z';
  expect(oddVersions([node('n1', now), node('n2', now)])).toEqual(new Set());
  expect(oddVersions([node('n1', now), node('n2', now), node('n3', now, { version: '2' })])).toEqual(
    new Set(['2']),
  );
});
