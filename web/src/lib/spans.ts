// Spans as the job file writes them: `30s`, `1h30m`, `500ms`, `2d`.
import { duration, type Lang } from './time';

const SIZES: Record<string, number> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** The milliseconds of a span, or null if it is none. */
export function spanMs(text: string): number | null {
  const parts = [...text.trim().matchAll(/(\d+)\s*(ms|[smhdw])/g)];
  const read = parts.map((part) => part[0]).join('');
  if (parts.length === 0 || read !== text.replaceAll(' ', '')) return null;
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (SIZES[unit ?? ''] ?? 0), 0);
}

/** `10m` as `10 min`; what is no span stays as it is. */
export function spanWords(text: string, lang: Lang): string {
  const ms = spanMs(text);
  return ms === null ? text : duration(ms, lang);
}
