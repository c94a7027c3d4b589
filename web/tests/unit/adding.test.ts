// What is typed in the dialogs that add messages, as requests and as command lines.
import { expect, test } from 'vitest';
import { addCommands, base64Of, bytesOfBase64, EMPTY, optionsOf } from '../../src/screens/queue/adding';
import { MANY, manyCommands, readMany, requestsOf } from '../../src/screens/queue/many';

const PATH = '/api/v1/namespaces/default/queues/mail/messages';

test('empty options are left out, and numbers are numbers', () => {
  expect(optionsOf(EMPTY)).toEqual({});
  expect(optionsOf({ ...EMPTY, delay: ' 5m ', priority: '9', maxLen: '1000' })).toEqual({
    delay: '5m',
    priority: 9,
    max_len: 1000,
  });
  expect(optionsOf({ ...EMPTY, priority: 'high' }), 'the server refuses it').toEqual({ priority: 'high' });
});

test('base64 is read with its line ends', () => {
  expect(base64Of('AAEC\n/v8=\n')).toBe('AAEC/v8=');
  expect(bytesOfBase64('AAEC/v8=')).toBe(5);
  for (const wrong of ['AAE', 'AA=E', 'not base64!']) expect(base64Of(wrong), wrong).toBeNull();
});

test('the command lines of a message keep its bytes', () => {
  const text = addCommands({ text: 'a\n' }, 'mail', PATH, { max_len: 10 });
  expect(text.cli).toBe("printf %s 'a\n' | punctual queue add mail --max-len 10 --exact");
  const base64 = addCommands({ base64: 'AAE=' }, 'mail', PATH, {});
  expect(base64.cli).toBe('printf %s AAE= | base64 -d | punctual queue add mail --exact');
  expect(base64.curl).toContain(`'{"body_base64":"AAE="}'`);
  const file = addCommands({ file: 'a b.bin' }, 'mail', PATH, { delay: '5m' });
  expect(file.cli).toBe("punctual queue add mail --delay 5m --exact < 'a b.bin'");
  expect(file.curl).toContain(`{ printf %s '{"delay":"5m","body_base64":"'; base64 < 'a b.bin' | tr -d`);
  expect(file.curl).toContain('-d @-');
});

test('each line is a message, and the last needs no end', () => {
  expect(readMany('', 'lines').messages).toEqual([]);
  expect(readMany('one\n\ntwo\n', 'lines').messages).toEqual([
    { body: 'one' },
    { body: '' },
    { body: 'two' },
  ]);
});

test('a list has bodies and messages', () => {
  const read = readMany('[\n  "one",\n\n  { "body": "two", "delay": "5m" }\n]', 'list');
  expect(read).toMatchObject({ fault: null, lines: [2, 4] });
  expect(read.messages).toEqual([{ body: 'one' }, { body: 'two', delay: '5m' }]);
});

test('an error in a list names its line', () => {
  const line = (text: string) => readMany(text, 'list').fault?.line ?? null;
  expect(line('[\n  "one",\n  17\n]'), 'a number is no body').toBe(3);
  expect(line('[\n  "one",\n  { "delay": "5m" }\n]'), 'no body').toBe(3);
  expect(line('{ "body": "one" }'), 'no list').toBe(1);
  expect(line('[\n  "one\n]'), 'a quote is missing').not.toBeNull();
  expect(line('')).toBeNull();
});

test('a message that is too long is named by its line', () => {
  const read = readMany(`short\n${'x'.repeat(1024 * 1024 + 1)}`, 'lines');
  expect(read.fault?.line).toBe(2);
  expect(read.fault?.message).toContain('1,048,577 bytes');
});

test('many messages are sent in requests that fit', () => {
  const some = (count: number, size: number) =>
    Array.from({ length: count }, () => ({ body: 'x'.repeat(size) }));
  expect(requestsOf([])).toEqual([]);
  expect(requestsOf(some(MANY + 1, 1))).toEqual([
    [0, MANY],
    [MANY, MANY + 1],
  ]);
  expect(requestsOf(some(3, 300 * 1024))).toHaveLength(3);
});

test('the command lines of many messages come from a file if they are many', () => {
  const few = manyCommands(readMany('a\nb c', 'lines'), 'lines', 'mail', PATH, { delay: '5m' });
  expect(few.cli).toBe(`printf '%s\\n' a 'b c' | punctual queue add mail --lines --delay 5m`);
  expect(few.curl).toContain('{"messages":[{"delay":"5m","body":"a"}');
  const more = manyCommands(readMany('a\n'.repeat(21), 'lines'), 'lines', 'mail', PATH, {});
  expect(more.cli).toBe('punctual queue add mail --lines < messages.txt');
  expect(more.curl).toContain('-d @messages.json');
  expect(manyCommands(readMany('["a"]', 'list'), 'list', 'mail', PATH, {}).cli).toBeNull();
});
