// The rules of a calendar as people type them: checked while typing, judged as the server does.
import type { Calendar, CalendarDay } from '../../api/types';

export const WEEKDAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const;
export type Weekday = (typeof WEEKDAYS)[number];
export const ENTRIES_MAX = 4000;
const NAME = /^[\p{L}\p{N}._-]+$/u;

export interface Rules {
  weekly: Weekday[];
  include: string[];
  exclude: string[];
}

export type Wrong = 'shape' | 'noSuchDay' | 'backwards' | 'year';

/** What is wrong with one entry: `2026-10-01`, `2026-10-01..2026-10-07` or `12-25`. Null: nothing. */
export function wrongWith(entry: string): Wrong | null {
  const [first, last, ...more] = entry.split('..');
  if (more.length > 0) return 'shape';
  if (last !== undefined) {
    const wrong = wrongDate(first!) ?? wrongDate(last);
    return wrong ?? (first! > last ? 'backwards' : null);
  }
  if (!/^\d\d-\d\d$/.test(entry)) return wrongDate(entry);
  // 2028 is a leap year: 02-29 exists in some years.
  return isDate(`2028-${entry}`) ? null : 'noSuchDay';
}

function wrongDate(text: string): Wrong | null {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return 'shape';
  if (!isDate(text)) return 'noSuchDay';
  const year = Number(text.slice(0, 4));
  return year < 1970 || year > 9998 ? 'year' : null;
}

function isDate(text: string): boolean {
  const at = Date.parse(`${text}T00:00:00Z`);
  // Some engines read 02-30 as 03-01.
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(text);
}

/** One entry for each line; a `#` starts a note. */
export function entriesOf(text: string): {
  entries: string[];
  wrong: { line: number; entry: string; why: Wrong } | null;
} {
  const entries: string[] = [];
  let wrong: { line: number; entry: string; why: Wrong } | null = null;
  for (const [index, line] of text.split('\n').entries()) {
    for (const entry of line
      .replace(/#.*/, '')
      .split(/[\s,]+/)
      .filter(Boolean)) {
      const why = wrongWith(entry);
      if (why && !wrong) wrong = { line: index + 1, entry, why };
      entries.push(entry);
    }
  }
  return { entries, wrong };
}

export function isName(name: string): boolean {
  return NAME.test(name);
}

export function rulesOf(calendar: Calendar): Rules {
  return {
    weekly: (calendar.weekly as Weekday[] | null | undefined) ?? [...WEEKDAYS],
    include: calendar.include ?? [],
    exclude: calendar.exclude ?? [],
  };
}

/** Weekdays that follow each other as spans: Monday to Friday, and Sunday. Two days are not a span. */
export function spansOf(weekly: Weekday[]): { first: Weekday; last: Weekday }[] {
  const spans: Weekday[][] = [];
  for (const day of WEEKDAYS.filter((each) => weekly.includes(each))) {
    const before = WEEKDAYS[WEEKDAYS.indexOf(day) - 1];
    const span = spans.at(-1);
    if (span && span.at(-1) === before) span.push(day);
    else spans.push([day]);
  }
  return spans.flatMap((span) =>
    span.length > 2
      ? [{ first: span[0]!, last: span.at(-1)! }]
      : span.map((day) => ({ first: day, last: day })),
  );
}

/** Whether a calendar with these rules has any day; the server refuses one without. */
export function hasAnyDay(rules: Rules): boolean {
  return rules.weekly.length > 0 || rules.include.length > 0;
}

function covers(entry: string, day: string): boolean {
  if (entry.length === 5) return day.endsWith(entry);
  const [first, last = first] = entry.split('..');
  return first! <= day && day <= last!;
}

/** `include` wins over `exclude`, `exclude` over `weekly`. */
export function judge(rules: Rules, day: string): CalendarDay {
  const weekday = WEEKDAYS[(new Date(`${day}T00:00:00Z`).getUTCDay() + 6) % 7]!;
  if (rules.include.some((entry) => covers(entry, day))) return { day, weekday, in: true, by: 'include' };
  if (rules.exclude.some((entry) => covers(entry, day))) return { day, weekday, in: false, by: 'exclude' };
  return { day, weekday, in: rules.weekly.includes(weekday), by: 'weekly' };
}

/** Every day of a year, by the rules. */
export function yearOf(rules: Rules, year: number): CalendarDay[] {
  const days: CalendarDay[] = [];
  for (let at = Date.UTC(year, 0, 1); new Date(at).getUTCFullYear() === year; at += 86_400_000)
    days.push(judge(rules, new Date(at).toISOString().slice(0, 10)));
  return days;
}
