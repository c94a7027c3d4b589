// Times and durations in words. The functions are pure; `ui/RelativeTime.svelte` makes them tick.
export type Lang = 'en' | 'zh';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const UNITS = {
  en: { ms: 'ms', s: 's', min: 'min', h: 'h', d: 'd' },
  zh: { ms: '毫秒', s: '秒', min: '分钟', h: '小时', d: '天' },
} as const;

const LOCALES = { en: 'en-GB', zh: 'zh-CN' } as const;

export function locale(lang: Lang): string {
  return LOCALES[lang];
}

/** A span in at most two units: `12 ms`, `3.4 s`, `2 min 5 s`, `3 h 20 min`, `5 d`. */
export function duration(ms: number, lang: Lang = 'en'): string {
  const unit = UNITS[lang];
  const span = Math.abs(ms);
  const sign = ms < 0 ? '-' : '';
  if (span < SECOND) return `${sign}${Math.round(span)} ${unit.ms}`;
  // 59.96 s would be rounded to "60 s".
  if (span < 59_950) return `${sign}${round(span / SECOND)} ${unit.s}`;
  if (span < HOUR) return sign + two(span, MINUTE, unit.min, SECOND, unit.s);
  if (span < DAY) return sign + two(span, HOUR, unit.h, MINUTE, unit.min);
  return sign + two(span, DAY, unit.d, HOUR, unit.h);
}

function round(value: number): string {
  return value < 10 ? String(Math.round(value * 10) / 10) : String(Math.round(value));
}

function two(span: number, big: number, bigWord: string, small: number, smallWord: string): string {
  const total = Math.round(span / small);
  const ratio = big / small;
  const [whole, rest] = [Math.floor(total / ratio), total % ratio];
  return rest === 0 || whole >= 10 ? `${whole} ${bigWord}` : `${whole} ${bigWord} ${rest} ${smallWord}`;
}

/** One unit, for times that tick: `in 3 h`, `12 s ago`, `now`. */
export function relative(at: number, now: number, lang: Lang = 'en'): string {
  const span = at - now;
  const size = Math.abs(span);
  if (size < SECOND) return lang === 'zh' ? '现在' : 'now';
  const unit = UNITS[lang];
  const [count, word] =
    size < MINUTE
      ? [size / SECOND, unit.s]
      : size < HOUR
        ? [size / MINUTE, unit.min]
        : size < DAY
          ? [size / HOUR, unit.h]
          : [size / DAY, unit.d];
  const text = `${Math.floor(count)} ${word}`;
  if (lang === 'zh') return span > 0 ? `${text}后` : `${text}前`;
  return span > 0 ? `in ${text}` : `${text} ago`;
}

export interface ExactTime {
  zone: string;
  text: string;
}

/** The instant in the reader's zone, in the job's zone and in UTC, each zone once. */
export function exact(at: number, lang: Lang, jobZone?: string | null): ExactTime[] {
  const zones = [localZone(), jobZone, 'UTC'].filter((zone): zone is string => Boolean(zone));
  return [...new Set(zones)].map((zone) => ({ zone, text: inZone(at, zone, lang) }));
}

export function localZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(key: string, lang: Lang, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const name = `${key} ${lang} ${options.timeZone ?? ''}`;
  let made = formats.get(name);
  if (!made) formats.set(name, (made = new Intl.DateTimeFormat(locale(lang), options)));
  return made;
}

/** `Tue, 17 Nov 2026, 02:00:00`. An unknown zone gives UTC. */
export function inZone(at: number, timeZone: string, lang: Lang): string {
  const options: Intl.DateTimeFormatOptions = {
    weekday: 'short',
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  };
  try {
    return format('full', lang, { ...options, timeZone }).format(at);
  } catch {
    return format('full', lang, { ...options, timeZone: 'UTC' }).format(at);
  }
}

/** An instant for an input of the type `datetime-local`, which works in the reader's zone and has no zone in its text. */
export function toLocal(at: string | null | undefined): string {
  if (!at) return '';
  const date = new Date(at);
  return new Date(date.getTime() - date.getTimezoneOffset() * MINUTE).toISOString().slice(0, 16);
}

/** The instant of such an input; null if it is empty. */
export function fromLocal(text: string): string | null {
  const at = text ? new Date(text) : null;
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : null;
}

/** `02:00` in the reader's zone, in both languages; without `Intl`, which is slow to load. */
export function clock(at: number): string {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes()].map((part) => String(part).padStart(2, '0')).join(':');
}

/** `17 Nov` in the reader's zone. */
export function day(at: number, lang: Lang): string {
  return format('date', lang, { month: 'short', day: 'numeric' }).format(at);
}

/** `17 Nov 02:00` in the reader's zone. */
export function dayAndClock(at: number, lang: Lang): string {
  return format('day', lang, {
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).format(at);
}

/** `Tue, 17 Nov, 02:00`, with seconds if there are any. An unknown zone gives UTC. */
export function inZoneShort(at: number, timeZone: string, lang: Lang): string {
  const seconds = at % MINUTE !== 0;
  const options: Intl.DateTimeFormatOptions = {
    weekday: 'short',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    ...(seconds ? { second: '2-digit' } : {}),
    hourCycle: 'h23',
  };
  const key = seconds ? 'seconds' : 'short';
  try {
    return format(key, lang, { ...options, timeZone }).format(at);
  } catch {
    return format(key, lang, { ...options, timeZone: 'UTC' }).format(at);
  }
}
