import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { EVERYTHING, live } from '../../src/api/live.svelte';
import { RunList } from '../../src/screens/runs/list.svelte';

let asked: URLSearchParams[];
let change: () => void;
let stop: () => void;
let answered: Promise<unknown>;

const counted = () => asked.filter((query) => query.get('count') === 'true').length;

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  answered = Promise.resolve();
  vi.stubGlobal('fetch', async (address: string) => {
    asked.push(new URL(address, 'http://node').searchParams);
    await answered;
    return Response.json({ items: [{ id: '1', state: 'running' }], next: 'more', counts: { running: 1 } });
  });
  vi.spyOn(live, 'onChange').mockImplementation((listener) => {
    change = () => listener(EVERYTHING);
    return () => {};
  });
});

afterEach(() => {
  stop();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

async function started(): Promise<RunList> {
  const list = new RunList('default', {});
  stop = list.start();
  await vi.advanceTimersByTimeAsync(1);
  return list;
}

test('a list that changes all the time is counted every ten seconds', async () => {
  const list = await started();
  expect([asked.length, counted()]).toEqual([1, 1]);
  for (let second = 0; second < 9; second += 1) {
    change();
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect([asked.length, counted()]).toEqual([10, 1]);
  for (let second = 0; second < 20; second += 1) {
    change();
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(counted()).toBe(3);
  expect(list.counts).toEqual({ running: 1 });
});

test('the counts are right after the last change', async () => {
  await started();
  change();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(counted()).toBe(1);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(counted()).toBe(2);
  const { length } = asked;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked.length).toBe(length);
});

test('a change is read after the page that loads', async () => {
  const list = await started();
  let answer!: (value: unknown) => void;
  answered = new Promise((resolve) => (answer = resolve));
  void list.more();
  change();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(asked.length).toBe(2);
  answer(null);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(asked.length).toBe(3);
});
