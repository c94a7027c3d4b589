import { afterEach, expect, test, vi } from 'vitest';
import { api } from '../../src/api/client';
import { readEarly } from '../../src/api/early';
import { session } from '../../src/api/session.svelte';
import { storeToken } from '../../src/api/token';

const PATH = '/api/v1/overview';

afterEach(() => {
  vi.unstubAllGlobals();
  storeToken(null);
  session.token = null;
});

/** A server whose answers are counted: `{ count: 1 }`, `{ count: 2 }`. */
function server(status = () => 200) {
  let count = 0;
  const fetch = vi.fn(async () => {
    count += 1;
    return new Response(JSON.stringify({ count, code: 'busy', title: 'Busy', message: 'busy' }), {
      status: status(),
    });
  });
  vi.stubGlobal('fetch', fetch);
  return fetch;
}

test('an early answer goes to the first read only', async () => {
  const fetch = server();
  await readEarly(PATH);
  expect(await api.get(PATH)).toMatchObject({ count: 1 });
  expect(fetch).toHaveBeenCalledTimes(1);
  expect(await api.get(PATH)).toMatchObject({ count: 2 });
});

test('an early failure is asked for again', async () => {
  const statuses = [503, 200];
  server(() => statuses.shift() ?? 200);
  await readEarly(PATH);
  expect(await api.get(PATH)).toMatchObject({ count: 2 });
});

test('an early answer of another token is not used', async () => {
  server();
  await readEarly(PATH);
  session.token = 'secret';
  expect(await api.get(PATH)).toMatchObject({ count: 2 });
});

test('an early answer of a read that was stopped is not used', async () => {
  server();
  await readEarly(PATH);
  const signal = AbortSignal.abort();
  await expect(api.get(PATH, undefined, { signal })).rejects.toMatchObject({ name: 'AbortError' });
});
