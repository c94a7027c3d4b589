import { expect, test } from 'vitest';
import { bytesOf, HEX_MAX, hexLines, summary, viewsOf } from '../../src/screens/queue/body';
import { actCommands, actsOf } from '../../src/screens/queue/acts';
import { endOf, isHeld } from '../../src/screens/queue/held';
import { KEPT, rates, shownRate, withSample, type Sample } from '../../src/screens/queues/samples';

const sample = (second: number, added: number | null, taken: number | null): Sample => ({
  at: second * 1000,
  queued: 0,
  added,
  taken,
});

test('rates come from the counters of two reads', () => {
  expect(rates([])).toEqual({ in: null, out: null });
  expect(rates([sample(0, 5, 5)])).toEqual({ in: null, out: null });
  expect(rates([sample(0, 100, 50), sample(5, 150, 60)])).toEqual({ in: 10, out: 2 });
});

test('a rate is of the last minute', () => {
  const samples = [sample(0, 0, 0), sample(100, 1000, 0), sample(130, 1030, 60)];
  expect(rates(samples)).toEqual({ in: 1, out: 2 });
});

test('counters that start again with another leader are no negative rate', () => {
  expect(rates([sample(0, 1000, 900), sample(5, 3, 2)])).toEqual({ in: null, out: null });
  expect(rates([sample(0, 1000, 900), sample(5, 3, 2), sample(10, 13, 2)])).toEqual({ in: 2, out: 0 });
});

test('a listing without counters gives no rate', () => {
  expect(rates([sample(0, null, null), sample(5, null, null)])).toEqual({ in: null, out: null });
  expect(rates([sample(0, null, null), sample(5, 7, 7)])).toEqual({ in: null, out: null });
});

test('slow rates are told per minute', () => {
  expect(shownRate(0)).toEqual({ value: 0, per: 's' });
  expect(shownRate(0.05)).toEqual({ value: 3, per: 'min' });
  expect(shownRate(2.345)).toEqual({ value: 2.3, per: 's' });
  expect(shownRate(1234.5)).toEqual({ value: 1235, per: 's' });
});

test('samples are kept up to a limit', () => {
  let samples: Sample[] = [];
  for (let second = 0; second < KEPT + 20; second += 1) samples = withSample(samples, sample(second, 0, 0));
  expect(samples).toHaveLength(KEPT);
  expect(samples.at(-1)?.at).toBe((KEPT + 19) * 1000);
});

test('a body is shown as JSON only if it is an object or a list', () => {
  expect(viewsOf({ body: '{"a":1}' })).toEqual(['json', 'text', 'hex']);
  expect(viewsOf({ body: '17' })).toEqual(['text', 'hex']);
  expect(viewsOf({ body: '{broken' })).toEqual(['text', 'hex']);
  expect(viewsOf({ body: '' })).toEqual(['text', 'hex']);
  expect(viewsOf({ body: null, body_base64: 'AAE=' })).toEqual(['hex']);
});

test('bytes are shown with their place, codes and letters', () => {
  const lines = hexLines(bytesOf({ body: 'hello\n12é' }), 8).split('\n');
  expect(lines).toEqual([
    '00000000  68 65 6c 6c 6f 0a 31 32  hello·12',
    '00000008  c3 a9                    ··',
  ]);
  expect(bytesOf({ body_base64: 'AAEC/v8=' })).toEqual(new Uint8Array([0, 1, 2, 254, 255]));
  expect(bytesOf({ body_base64: 'not base64!' })).toHaveLength(0);
  expect(hexLines(new Uint8Array(HEX_MAX + 100)).split('\n')).toHaveLength(HEX_MAX / 16);
});

test('a list shows the start of a body on one line', () => {
  expect(summary({ body: '  a\n b ' })).toBe('a b');
  expect(summary({ body: 'x'.repeat(500) })).toHaveLength(200);
  expect(summary({ body_base64: 'AAEC/v8=' })).toBe('00 01 02 fe ff');
});

test('a message that is ready is postponed, one that is not is delivered now', () => {
  expect(actsOf({ state: 'queued', attempts: 0 })).toEqual(['dequeue', 'ack', 'delete']);
  const delayed = { state: 'active', attempts: 0, next_requeue_within: '5m' } as const;
  expect(actsOf(delayed)).toEqual(['enqueue', 'ack', 'delete']);
  expect(actsOf({ ...delayed, attempts: 1 })).toContain('working');
  const once = { ...delayed, attempts: 1, next_requeue_within: null };
  expect(actsOf(once), 'it is put back only as never taken').toEqual(['ack', 'return', 'delete']);
});

test('the command lines of a message have a command only where there is one', () => {
  const nack = actCommands('nack', ['D-1', 'D-2'], ' 1m ');
  expect(nack.cli).toBe('punctual queue nack D-1 D-2 --delay 1m');
  expect(nack.curl).toContain(`'{"action":"nack","ids":["D-1","D-2"],"delay":"1m"}'`);
  const now = actCommands('enqueue', ['D-1'], '1m');
  expect(now.cli).toBeNull();
  expect(now.curl).toContain(`'{"action":"enqueue","ids":["D-1"]}'`);
});

test('the delivery of each message is extended by its own request', () => {
  const { cli, curl } = actCommands('working', ['D-1+a/b', 'D-2']);
  expect(cli).toBeNull();
  expect(curl.split('\n').map((line) => line.replace(/.*messages/, ''))).toEqual([
    '/D-1%2Ba%2Fb/working',
    '/D-2/working',
  ]);
});

test('a message is held until it is ready, given back or redelivered', () => {
  const taken = { nacks: 1, redeliveries: 0 };
  expect(isHeld(taken, { ...taken, state: 'active' })).toBe(true);
  expect(isHeld(taken, { ...taken, state: 'queued' })).toBe(false);
  expect(isHeld(taken, { ...taken, state: 'active', redeliveries: 1 })).toBe(false);
  expect(endOf({ next_requeue_within: '5m' }, 0)).toBe('1970-01-01T00:05:00.000Z');
  expect(endOf({ next_requeue_within: null }, 0)).toBeNull();
});
