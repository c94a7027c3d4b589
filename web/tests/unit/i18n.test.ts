import { count, num } from '../../src/i18n/plural';
import { expect, test } from 'vitest';
import { en } from '../../src/i18n/en';
import { zh } from '../../src/i18n/zh';

type Tree = { [key: string]: string | ((...args: never[]) => string) | Tree };

/** Every text with its path; functions are called with sample values. */
function texts(tree: Tree, path = ''): [string, string][] {
  return Object.entries(tree).flatMap(([key, value]): [string, string][] => {
    const place = path ? `${path}.${key}` : key;
    if (typeof value === 'string') return [[place, value]];
    if (typeof value === 'function') return [[place, value(...([2, 2, 2] as never[]))]];
    return texts(value, place);
  });
}

test('both languages have the same keys', () => {
  const keys = (tree: Tree) =>
    texts(tree)
      .map(([key]) => key)
      .sort();
  expect(keys(zh)).toEqual(keys(en));
});

test.each([
  ['en', en],
  ['zh', zh],
])('no text of %s is empty or broken', (_, words) => {
  for (const [key, text] of texts(words)) {
    expect(text.trim(), key).not.toBe('');
    expect(text, key).not.toMatch(/undefined|NaN|\[object/);
  }
});

test('English contains no Chinese', () => {
  for (const [key, text] of texts(en)) expect(text, key).not.toMatch(/\p{Script=Han}/u);
});

test('Chinese has full-width punctuation, and spaces beside Latin letters', () => {
  for (const [key, text] of texts(zh)) {
    expect(text, key).not.toMatch(/\p{Script=Han}[,;:!?]/u);
    if (text.includes('2')) continue; // a sample value
    expect(text, key).not.toMatch(/\p{Script=Han}[A-Za-z0-9]|[A-Za-z0-9]\p{Script=Han}/u);
  }
});

test('numbers are grouped as both languages do', () => {
  for (const n of [0, 7, 999, 1000, 1_234_567, -12_345, 0.5, 1234.5678, 2.9996])
    for (const locale of ['en-GB', 'zh-CN']) expect(num(n)).toBe(new Intl.NumberFormat(locale).format(n));
  expect([count(1, 'job'), count(0, 'job'), count(1204, 'entry', 'entries')]).toEqual([
    '1 job',
    '0 jobs',
    '1,204 entries',
  ]);
});
