import { expect, test } from 'vitest';
import { formBody, isDueKnown, submitCommands, submitWords, type Typed } from '../../src/dialogs/submit';

const EMPTY: Typed = { params: '', when: 'now', delay: '', at: '', key: '', priority: '' };
const cli = (body: Record<string, unknown>) => submitWords(body)?.join(' ') ?? null;

test('an empty form leaves everything to the text', () => {
  expect(formBody(EMPTY)).toEqual({});
  expect(formBody({ ...EMPTY, params: ' {} ', delay: '5m', at: '2027-01-15T09:00' }), 'due now').toEqual({});
});

test('the form gives what was typed', () => {
  const typed = { ...EMPTY, params: '{"a":1}', key: 'order-17', priority: '9' };
  expect(formBody({ ...typed, when: 'delay', delay: ' 5m ', at: '2027-01-15T09:00' })).toEqual({
    params: { a: 1 },
    delay: '5m',
    key: 'order-17',
    priority: 9,
  });
  const due_at = new Date(2027, 0, 15, 9).toISOString();
  expect(formBody({ ...EMPTY, when: 'at', delay: '5m', at: '2027-01-15T09:00' })).toEqual({ due_at });
  expect(formBody({ ...EMPTY, priority: 'high' }), 'the server says what is wrong').toEqual({
    priority: 'high',
  });
});

test('a run waits for a time that is chosen and not typed yet', () => {
  expect(isDueKnown(EMPTY)).toBe(true);
  for (const when of ['delay', 'at'] as const) expect(isDueKnown({ ...EMPTY, when }), when).toBe(false);
  expect(isDueKnown({ ...EMPTY, when: 'delay', delay: '5m' })).toBe(true);
  expect(isDueKnown({ ...EMPTY, when: 'at', at: '2027-01-15T09:00' })).toBe(true);
});

test('the command line has the task, and the program last', () => {
  expect(cli({ task: { shell: 'echo hello' } })).toBe('run submit --shell echo hello');
  expect(cli({ task: { noop: {} }, priority: 9, at_most_once: true })).toBe(
    'run submit --noop --priority 9 --at-most-once',
  );
  const body = { task: { process: { command: ['./settle', '--day'] } }, params: { a: 1 }, key: 'k' };
  expect(cli(body)).toBe('run submit --params {"a":1} --key k -- ./settle --day');
  const route = { strategy: 'sticky', selector: { zone: 'east' } };
  expect(cli({ task: { noop: {} }, timeout: '5m', retry: { attempts: 3 }, route })).toBe(
    'run submit --noop --timeout 5m --attempts 3 --route sticky --selector zone=east',
  );
  const due_at = '2027-01-15T09:00:00.000Z';
  expect(cli({ task: { noop: {} }, due_at })).toBe(`run submit --noop --at ${due_at}`);
});

test('a run that the command line cannot describe has only a request', () => {
  for (const body of [
    {},
    { task: 'echo' },
    { task: { shell: 'a', noop: {} } },
    { task: { http: { url: 'http://localhost' } } },
    { task: { process: { command: ['a'], dir: '/tmp' } } },
    { task: { noop: {} }, retry: { attempts: 3, delay: '1s' } },
    { task: { noop: {} }, route: { shards: 3 } },
    { task: { noop: {} }, dead_letter: false },
  ])
    expect(submitWords(body), JSON.stringify(body)).toBeNull();
  const lines = submitCommands(
    { task: { http: { url: 'http://localhost' } } },
    '/api/v1/namespaces/default/runs',
  );
  expect(lines.cli).toBeNull();
  expect(lines.curl).toContain(`'{"task":{"http":{"url":"http://localhost"}}}'`);
});
