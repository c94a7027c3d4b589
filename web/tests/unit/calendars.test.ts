import { expect, test } from 'vitest';
import {
  entriesOf,
  hasAnyDay,
  isName,
  judge,
  spansOf,
  wrongWith,
  yearOf,
} from '../../src/screens/calendars/rules';

test('an entry is a day, a span or a day of every year', () => {
  for (const entry of ['2026-10-01', '2026-10-01..2026-10-07', '2026-10-01..2026-10-01', '12-25', '02-29'])
    expect(wrongWith(entry), entry).toBeNull();
  expect(wrongWith('2026-02-29')).toBe('noSuchDay');
  expect(wrongWith('02-30')).toBe('noSuchDay');
  expect(wrongWith('13-01')).toBe('noSuchDay');
  expect(wrongWith('2026-1-1')).toBe('shape');
  expect(wrongWith('1 Oct')).toBe('shape');
  expect(wrongWith('12-25..12-26')).toBe('shape');
  expect(wrongWith('2026-10-07..2026-10-01')).toBe('backwards');
  expect(wrongWith('1969-12-31')).toBe('year');
  expect(wrongWith('2026-01-01..2026-01-02..2026-01-03')).toBe('shape');
});

test('entries are read line by line; the first wrong one is named with its line', () => {
  expect(entriesOf('2026-10-01  # day off\n\n12-25, 12-26\n')).toEqual({
    entries: ['2026-10-01', '12-25', '12-26'],
    wrong: null,
  });
  expect(entriesOf('12-25\nnonsense\n13-13').wrong).toEqual({ line: 2, entry: 'nonsense', why: 'shape' });
});

const china = {
  weekly: ['mon', 'tue', 'wed', 'thu', 'fri'] as const,
  include: ['2026-10-10'],
  exclude: ['2026-10-01..2026-10-10', '01-01'],
};
const rules = { ...china, weekly: [...china.weekly] };

test('include wins over exclude, exclude over the weekday', () => {
  expect(judge(rules, '2026-09-30')).toEqual({ day: '2026-09-30', weekday: 'wed', in: true, by: 'weekly' });
  expect(judge(rules, '2026-10-01')).toMatchObject({ in: false, by: 'exclude' });
  expect(judge(rules, '2026-10-10')).toMatchObject({ weekday: 'sat', in: true, by: 'include' });
  expect(judge(rules, '2026-10-11')).toMatchObject({ weekday: 'sun', in: false, by: 'weekly' });
  expect(judge(rules, '2031-01-01')).toMatchObject({ in: false, by: 'exclude' });
});

test('a year has all its days', () => {
  expect(yearOf(rules, 2026)).toHaveLength(365);
  expect(yearOf(rules, 2028)).toHaveLength(366);
});

test('a calendar needs a day, and a name without spaces', () => {
  expect(hasAnyDay({ weekly: [], include: [], exclude: ['12-25'] })).toBe(false);
  expect(hasAnyDay({ weekly: [], include: ['12-25'], exclude: [] })).toBe(true);
  expect(isName('cn-workdays_2.1')).toBe(true);
  expect(isName('two words')).toBe(false);
  expect(isName('')).toBe(false);
});

test('weekdays that follow each other are a span', () => {
  expect(spansOf(['mon', 'tue', 'wed', 'thu', 'fri', 'sun'])).toEqual([
    { first: 'mon', last: 'fri' },
    { first: 'sun', last: 'sun' },
  ]);
  expect(spansOf(['sun', 'sat'])).toEqual([
    { first: 'sat', last: 'sat' },
    { first: 'sun', last: 'sun' },
  ]);
  expect(spansOf([])).toEqual([]);
});
