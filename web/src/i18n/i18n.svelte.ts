// The words of the console in both languages. A value is a text, or a function that returns one.
import { prefs } from '../lib/prefs.svelte';
import { en } from './en';
import { zh } from './zh';

export type Words = typeof en;

const words: Record<'en' | 'zh', Words> = { en, zh };

/** `t().jobs.title` in the chosen language; reactive in markup and in `$derived`. */
export function t(): Words {
  return words[prefs.lang];
}

// Made when they are first used: they are slow to make.
// eslint-disable-next-line svelte/prefer-svelte-reactivity -- nothing is drawn from it
const formats = new Map<string, Intl.NumberFormat>();

function format(notation: 'standard' | 'compact', value: number): string {
  const key = prefs.lang + notation;
  let made = formats.get(key);
  if (!made) {
    const options = notation === 'compact' ? { notation, maximumFractionDigits: 1 } : {};
    formats.set(key, (made = new Intl.NumberFormat(prefs.lang, options)));
  }
  return made.format(value);
}

/** `1,204` */
export function number(value: number): string {
  return format('standard', value);
}

/** `1.2K`, for tight places. */
export function compact(value: number): string {
  // From 10,000 on without a decimal, so that a number has at most four signs.
  return format('compact', value < 10_000 ? value : Number(value.toPrecision(2)));
}
