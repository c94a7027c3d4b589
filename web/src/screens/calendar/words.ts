// Names of local days and hours. The days are read as UTC, so that no zone moves them.
import { locale, type Lang } from '../../lib/time';

const at = (day: string) => Date.parse(`${day}T00:00:00Z`);

function named(day: string, lang: Lang, options: Intl.DateTimeFormatOptions): string {
  return new Intl.DateTimeFormat(locale(lang), { ...options, timeZone: 'UTC' }).format(at(day));
}

/** `Tue 17 Nov` */
export function dayName(day: string, lang: Lang): string {
  return named(day, lang, { weekday: 'short', day: 'numeric', month: 'short' }).replace(',', '');
}

export function shortDay(day: string, lang: Lang): string {
  return named(day, lang, { day: 'numeric', month: 'short' });
}

export function weekdayName(day: string, lang: Lang): string {
  return named(day, lang, { weekday: 'short' });
}

/** `Tue 17 Nov, 02:00` */
export function hourName({ day, hour }: { day: string; hour: number }, lang: Lang): string {
  const clock = `${String(hour).padStart(2, '0')}:00`;
  return lang === 'zh' ? `${dayName(day, lang)} ${clock}` : `${dayName(day, lang)}, ${clock}`;
}

/** `16 Nov – 29 Nov 2026`, `2026年11月16日 – 11月29日`: the year is said once, where the language says it. */
export function spanName(first: string, last: string, lang: Lang): string {
  const withYear = (day: string) => named(day, lang, { day: 'numeric', month: 'short', year: 'numeric' });
  const isOneYear = first.slice(0, 4) === last.slice(0, 4);
  const from = isOneYear && lang === 'en' ? shortDay(first, lang) : withYear(first);
  const to = isOneYear && lang === 'zh' ? shortDay(last, lang) : withYear(last);
  return `${from} – ${to}`;
}
