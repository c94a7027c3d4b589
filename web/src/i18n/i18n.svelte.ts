// The words of the console in both languages. A value is a text, or a function that returns one.
import { prefs } from '../lib/prefs.svelte';
import type { Lang } from '../lib/time';
import { en } from './en';
import { num } from './plural';

export type Words = typeof en;

/** The Chinese words, once they are loaded. They would be a fifth of the script that every page loads first. */
let zh: Words | null = $state.raw(null);

/** Loads the words of a language. Until then `t()` gives English ones. */
export async function loadWords(lang: Lang): Promise<void> {
  if (lang === 'zh' && !zh) zh = (await import('./zh')).zh;
}

/** `t().jobs.title` in the chosen language; reactive in markup and in `$derived`. */
export function t(): Words {
  return prefs.lang === 'zh' && zh ? zh : en;
}

/** `1,204` */
export const number = num;

// Made when it is first used: it is slow to make.
// eslint-disable-next-line svelte/prefer-svelte-reactivity -- nothing is drawn from it
const formats = new Map<string, Intl.NumberFormat>();

/** `1.2K`, for tight places. */
export function compact(value: number): string {
  let made = formats.get(prefs.lang);
  if (!made) {
    made = new Intl.NumberFormat(prefs.lang, { notation: 'compact', maximumFractionDigits: 1 });
    formats.set(prefs.lang, made);
  }
  // From 10,000 on without a decimal, so that a number has at most four signs.
  return made.format(value < 10_000 ? value : Number(value.toPrecision(2)));
}
