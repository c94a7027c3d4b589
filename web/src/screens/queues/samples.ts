// What was read of a queue over time: the depth for its sparkline, the counters for its rates.
export interface Sample {
  at: number;
  queued: number;
  /** Counters of its leader; they start again when another node leads the queue. */
  added: number | null;
  taken: number | null;
}

/** Messages a second. Null means that it is not known yet. */
export interface Rates {
  in: number | null;
  out: number | null;
}

export const KEPT = 180;
const WINDOW_MS = 60_000;
/** Two reads closer than this say nothing about a rate. */
const SPAN_MIN_MS = 900;

/** Adds a sample; the oldest one leaves when there are `KEPT`. */
export function withSample(samples: readonly Sample[], sample: Sample): Sample[] {
  return [...samples.slice(Math.max(0, samples.length + 1 - KEPT)), sample];
}

/** The mean rates of the last minute, counted from where the leader last changed. */
export function rates(samples: readonly Sample[]): Rates {
  const last = samples.at(-1);
  if (!last) return { in: null, out: null };
  let first = last;
  for (const sample of samples.toReversed()) {
    const counts = sample.added !== null && sample.taken !== null;
    if (!counts || last.at - sample.at > WINDOW_MS) break;
    // A counter that falls has started again.
    if (sample.added! > (first.added ?? 0) || sample.taken! > (first.taken ?? 0)) break;
    first = sample;
  }
  const seconds = (last.at - first.at) / 1000;
  if (seconds * 1000 < SPAN_MIN_MS || last.added === null || last.taken === null)
    return { in: null, out: null };
  return { in: (last.added - first.added!) / seconds, out: (last.taken - first.taken!) / seconds };
}

export interface ShownRate {
  value: number;
  per: 's' | 'min';
}

/** A slow rate is told per minute, so that it is not `0.1/s`. */
export function shownRate(perSecond: number): ShownRate {
  const slow = perSecond > 0 && perSecond < 1;
  const value = slow ? perSecond * 60 : perSecond;
  return { value: value < 10 ? Math.round(value * 10) / 10 : Math.round(value), per: slow ? 'min' : 's' };
}
