import { expect, test } from 'vitest';
import { diffLines, diffValues } from '../../src/lib/diff';

const short = (lines: { kind: string; text: string }[]) =>
  lines.map((line) => ({ same: ' ', removed: '-', added: '+' })[line.kind] + line.text);

test('a changed line is removed, then added', () => {
  expect(short(diffLines('a\nb\nc', 'a\nB\nc'))).toEqual([' a', '-b', '+B', ' c']);
});

test('insertions, deletions and no change', () => {
  expect(short(diffLines('a\nc', 'a\nb\nc'))).toEqual([' a', '+b', ' c']);
  expect(short(diffLines('a\nb\nb', 'b'))).toEqual(['-a', '-b', ' b']);
  expect(short(diffLines('a', 'a'))).toEqual([' a']);
  expect(short(diffLines('', 'x'))).toEqual(['-', '+x']);
});

test('both texts can be read back from the lines', () => {
  const [before, after] = ['one\ntwo\nthree\nfour\nfive', 'zero\none\nthree\nvier\nfive\nsix'];
  const lines = diffLines(before, after);
  const side = (kind: string) =>
    lines
      .filter((line) => line.kind !== kind)
      .map((line) => line.text)
      .join('\n');
  expect([side('added'), side('removed')]).toEqual([before, after]);
});

test('large texts without anything in common do not need much memory', () => {
  const text = (word: string) => Array.from({ length: 5000 }, (_, index) => word + index).join('\n');
  expect(diffLines(text('a'), text('b'))).toHaveLength(10_000);
});

test('values of a job file', () => {
  expect(short(diffValues(1, 3))).toEqual(['-1', '+3']);
  expect(short(diffValues(undefined, '10m'))).toEqual(['+10m']);
  expect(short(diffValues({ a: 1 }, undefined))).toEqual(['-{', '-  "a": 1', '-}']);
  expect(short(diffValues(undefined, undefined))).toEqual([]);
});
