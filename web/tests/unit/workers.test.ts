import { expect, test } from 'vitest';
import type { Node, Run, Worker } from '../../src/api/types';
import { oddVersions, slotsOf } from '../../src/screens/workers/cluster';

const worker = (extra: Partial<Worker>) => ({ name: 'a', slots: 4, busy: 0, ...extra }) as Worker;
const run = (id: string, on: string) => ({ id, worker: on }) as Run;
const node = (name: string, extra: Partial<Node> = {}) =>
  ({ name, version: '1', lost_at: null, failed: null, ...extra }) as Node;

test('slots show known runs, then busy ones, then free ones', () => {
  const runs = [run('1', 'a'), run('2', 'b')];
  expect(slotsOf(worker({ busy: 2 }), runs)).toEqual([runs[0], 'busy', 'free', 'free']);
  expect(slotsOf(worker({ busy: 2, lost: true }), runs)).toEqual(['free', 'free', 'free', 'free']);
  // The list of runs may be newer than the count.
  expect(slotsOf(worker({ slots: 1, busy: 0 }), [run('1', 'a')])).toHaveLength(1);
  expect(slotsOf(worker({ slots: 100_000 }), [])).toHaveLength(128);
});

test('the version that few nodes have is told apart', () => {
  expect(oddVersions([node('n1'), node('n2')])).toEqual(new Set());
  expect(oddVersions([node('n1'), node('n2'), node('n3', { version: '2' })])).toEqual(new Set(['2']));
});
