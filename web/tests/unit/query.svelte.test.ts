import { flushSync } from 'svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { query, type Query } from '../../src/api/query.svelte';
import { session } from '../../src/api/session.svelte';

let answer: () => Response;
let asked: string[];

beforeEach(() => {
  asked = [];
  answer = () => Response.json({ value: asked.length });
  vi.stubGlobal('fetch', async (address: string) => {
    asked.push(address);
    return answer();
  });
});

afterEach(() => vi.unstubAllGlobals());

async function settled() {
  flushSync();
  await new Promise((resolve) => setTimeout(resolve, 5));
}

function run(address: () => string | null): { state: Query<{ value: number }>; stop: () => void } {
  let state!: Query<{ value: number }>;
  const stop = $effect.root(() => {
    state = query(address);
  });
  return { state, stop };
}

test('an address is read, and another one when it changes', async () => {
  let name = $state('a');
  const { state, stop } = run(() => `/api/${name}`);
  await settled();
  expect(state.data).toEqual({ value: 1 });
  name = 'b';
  await settled();
  expect(asked).toEqual(['/api/a', '/api/b']);
  stop();
});

test('the cached answer is shown while a new one loads', async () => {
  const first = run(() => '/api/cached');
  await settled();
  first.stop();
  const second = run(() => '/api/cached');
  flushSync();
  expect(second.state.data).toEqual({ value: 1 });
  expect(second.state.loading).toBe(true);
  second.stop();
});

test('a problem becomes an error with its code, and the data stays', async () => {
  const { state, stop } = run(() => '/api/problem');
  await settled();
  answer = () =>
    Response.json({ code: 'no_such_job', title: 'No such job', message: 'gone' }, { status: 404 });
  await state.refresh();
  expect(state.error).toMatchObject({ status: 404, code: 'no_such_job', message: 'gone' });
  expect(state.data).toEqual({ value: 1 });
  stop();
});

test('401 asks for a token, and signing in reads again', async () => {
  answer = () => Response.json({ code: 'unauthenticated', title: 'x', message: 'y' }, { status: 401 });
  const { state, stop } = run(() => '/api/secret');
  await settled();
  expect(session.signInNeeded).toBe(true);
  answer = () => Response.json({ value: 42 });
  session.signIn('secret');
  await settled();
  expect(state.data).toEqual({ value: 42 });
  expect(session.signInNeeded).toBe(false);
  stop();
});

test('null reads nothing', async () => {
  const { state, stop } = run(() => null);
  await settled();
  expect(asked).toEqual([]);
  expect(state.data).toBeUndefined();
  stop();
});
