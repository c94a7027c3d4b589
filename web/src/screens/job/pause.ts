// The pause of a job: the request that asks for it, and how it is told on one line.
import type { Pause, PauseJob } from '../../api/types';
import type { Words } from '../../i18n/i18n.svelte';
import { shorten, visible } from '../../lib/text';
import { dayAndClock, fromLocal, type Lang } from '../../lib/time';

const REASON_MAX = 80;

/** `until` is the text of an input of the type `datetime-local`. */
export function pauseBody(reason: string, until: string): PauseJob {
  const end = fromLocal(until);
  return { ...(reason.trim() ? { reason: reason.trim() } : {}), ...(end ? { until: end } : {}) };
}

/** `by ops · until 27 Dec, 06:00 · the bank is closed · since 19 Nov, 03:54`, for a row of a list, which cuts the end. */
export function pauseLine(pause: Pause, words: Words['job'], lang: Lang): string {
  const at = (instant: string) => dayAndClock(Date.parse(instant), lang);
  return [
    pause.by && words.pausedByName(visible(pause.by)),
    pause.until && words.pausedUntil(at(pause.until)),
    pause.reason && visible(shorten(pause.reason, REASON_MAX)),
    words.pausedSince(at(pause.since)),
  ]
    .filter(Boolean)
    .join(' · ');
}
