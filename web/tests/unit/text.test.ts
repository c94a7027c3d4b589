import { expect, test } from 'vitest';
import { pretty, sentence, shellQuote, shorten, visible } from '../../src/lib/text';
import { Slots, visibleRows } from '../../src/ui/table';

test('invisible characters are made visible', () => {
  expect(visible('a\u202eb')).toBe('a\\u{202e}b');
  expect(visible('tab\tand\nline')).toBe('tab\tand\nline');
  expect(visible('名字 🎉')).toBe('名字 🎉');
});

test('long texts lose their middle', () => {
  expect(shorten('x'.repeat(10_000), 80)).toHaveLength(80);
  expect(shorten('short')).toBe('short');
});

test('a message of the server becomes a sentence', () => {
  expect(sentence('no worker has `gpu=a100`')).toBe('No worker has “gpu=a100”.');
  expect(sentence('Done.')).toBe('Done.');
});

test('words are quoted for a shell', () => {
  expect(shellQuote('nightly')).toBe('nightly');
  expect(shellQuote("it's $HOME")).toBe(`'it'\\''s $HOME'`);
  expect(shellQuote('')).toBe("''");
});

test('only JSON is reformatted', () => {
  expect(pretty('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(pretty('a: 1')).toBe('a: 1');
});

test('only rows in view are drawn', () => {
  expect(visibleRows(0, 320, 32, 100_000, 2)).toEqual({ first: 0, last: 12 });
  expect(visibleRows(32_000, 320, 32, 100_000, 2)).toEqual({ first: 998, last: 1012 });
  expect(visibleRows(9_999_999, 320, 32, 10, 2)).toEqual({ first: 10, last: 10 });
});

test('a row keeps its slot while it is in view', () => {
  const slots = new Slots();
  expect(slots.take(['a', 'b', 'c'])).toEqual([0, 1, 2]);
  expect(slots.take(['b', 'c', 'd'])).toEqual([1, 2, 0]);
  expect(slots.take(['x', 'y', 'z'])).toEqual([1, 2, 0]);
});

test('the slot that has the focus goes with its row', () => {
  const slots = new Slots();
  slots.take(['a', 'b']);
  expect(slots.take(['c', 'd'], 0)).toEqual([1, 2]);
});
