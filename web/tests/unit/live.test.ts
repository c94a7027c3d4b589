import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { EVERYTHING, Live, touches, type Change } from '../../src/api/live.svelte';

let streams: ReadableStreamDefaultController<Uint8Array>[];
let answers: { live: number; readyz: number };

function say(text: string) {
  streams.at(-1)?.enqueue(new TextEncoder().encode(text));
}

function stream(signal: AbortSignal | null | undefined): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      streams.push(controller);
      signal?.addEventListener('abort', () => controller.error(new DOMException('aborted', 'AbortError')));
    },
  });
}

beforeEach(() => {
  vi.useFakeTimers();
  streams = [];
  answers = { live: 200, readyz: 200 };
  vi.stubGlobal('fetch', async (address: string, init?: RequestInit) => {
    const status = address.startsWith('/readyz') ? answers.readyz : answers.live;
    if (status === 0) throw new TypeError('no network');
    if (!address.startsWith('/api/v1/live') || status !== 200) return new Response('{}', { status });
    return new Response(stream(init?.signal));
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function started() {
  const live = new Live();
  const changes: Change[] = [];
  live.onChange((change) => changes.push(change));
  return { live, changes, stop: live.start('default') };
}

test('changes of the stream reach the listeners', async () => {
  const { live, changes, stop } = started();
  await vi.advanceTimersByTimeAsync(1);
  say('event: hello\ndata: {}\n\nevent: change\ndata: {"runs":["7"]}\n\n');
  await vi.advanceTimersByTimeAsync(1);
  expect(live.status).toBe('live');
  expect(changes).toEqual([EVERYTHING, { runs: ['7'] }]);
  stop();
});

test('a hidden page has no stream, and reads everything when it is shown', async () => {
  const { live, changes, stop } = started();
  await vi.advanceTimersByTimeAsync(1);
  say('event: hello\ndata: {}\n\n');
  await vi.advanceTimersByTimeAsync(1);
  const hidden = vi.spyOn(document, 'hidden', 'get').mockReturnValue(true);
  document.dispatchEvent(new Event('visibilitychange'));
  await vi.advanceTimersByTimeAsync(120_000);
  expect(() => say('late')).toThrow(); // the stream was cancelled
  expect([streams.length, live.status]).toEqual([1, 'live']);

  hidden.mockReturnValue(false);
  document.dispatchEvent(new Event('visibilitychange'));
  await vi.advanceTimersByTimeAsync(1);
  say('event: hello\ndata: {}\n\n');
  await vi.advanceTimersByTimeAsync(1);
  expect(streams.length).toBe(2);
  expect(changes).toEqual([EVERYTHING, EVERYTHING]);
  stop();
  hidden.mockRestore();
});

test('a refused stream is replaced by polling, and comes back', async () => {
  answers.live = 503;
  const { live, changes, stop } = started();
  await vi.advanceTimersByTimeAsync(11_000);
  expect(live.status).toBe('polling');
  expect(changes.length).toBeGreaterThanOrEqual(2);
  expect(changes[0]).toEqual(EVERYTHING);

  answers.live = 200;
  await vi.advanceTimersByTimeAsync(40_000);
  say('event: hello\ndata: {}\n\n');
  await vi.advanceTimersByTimeAsync(1);
  expect(live.status).toBe('live');
  stop();
});

test('a node that is gone or not ready is told apart', async () => {
  answers = { live: 0, readyz: 0 };
  const { live, stop } = started();
  await vi.advanceTimersByTimeAsync(2_000);
  expect([live.status, live.reason]).toEqual(['offline', 'unreachable']);
  answers = { live: 503, readyz: 503 };
  await vi.advanceTimersByTimeAsync(10_000);
  expect([live.status, live.reason]).toEqual(['offline', 'not_ready']);
  stop();
});

test('a silent stream is opened again', async () => {
  const { stop } = started();
  await vi.advanceTimersByTimeAsync(1);
  say('event: hello\ndata: {}\n\n');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(streams.length).toBeGreaterThan(1);
  stop();
});

test('a change touches only its topics', () => {
  const change: Change = { runs: ['1'], jobs: [], queues: [], workers: false, nodes: true, more: false };
  expect(touches(change, ['runs'])).toBe(true);
  expect(touches(change, ['jobs', 'workers'])).toBe(false);
  expect(touches(change, ['nodes'])).toBe(true);
  expect(touches({ ...change, more: true }, ['jobs'])).toBe(true);
});
