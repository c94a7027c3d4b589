// Days of a time zone: where they begin, and the nights on which its clocks change.
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string): Intl.DateTimeFormat {
  let made = formats.get(zone);
  if (!made) {
    const options = { year: 'numeric', month: 'numeric', day: 'numeric' } as const;
    const clock = { hour: 'numeric', minute: 'numeric', second: 'numeric', hourCycle: 'h23' } as const;
    made = new Intl.DateTimeFormat('en-US', { ...options, ...clock, timeZone: zone });
    formats.set(zone, made);
  }
  return made;
}

export function isZone(zone: string): boolean {
  try {
    return Boolean(format(zone));
  } catch {
    return false;
  }
}

/** What the clocks of the zone show, as if it were UTC. */
export function wall(at: number, zone: string): number {
  const parts: Record<string, number> = {};
  for (const { type, value } of format(zone).formatToParts(at)) parts[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** How far the clocks of the zone are ahead of UTC. */
export function offset(at: number, zone: string): number {
  const whole = Math.floor(at / 1000) * 1000;
  return wall(whole, zone) - whole;
}

export interface Change {
  at: number;
  /** Offsets before and after; a larger one after means that an hour is left out. */
  before: number;
  after: number;
}

/** The changes of the clocks in a span, oldest first. */
export function changes(zone: string, from: number, to: number): Change[] {
  const found: Change[] = [];
  for (let start = from; start < to; start += DAY) {
    const end = Math.min(start + DAY, to);
    const [before, after] = [offset(start, zone), offset(end, zone)];
    if (before === after) continue;
    let [low, high] = [start, end];
    while (high - low > 1000) {
      const middle = Math.floor((low + high) / 2000) * 1000;
      if (middle <= low || middle >= high) break;
      if (offset(middle, zone) === before) low = middle;
      else high = middle;
    }
    found.push({ at: high, before, after });
  }
  return found;
}

/** The instant at which a day of the zone begins. */
export function dayStart(year: number, month: number, day: number, zone: string): number {
  const wanted = Date.UTC(year, month, day);
  // The offset of the guess may be the one of the other side of a change.
  const guess = wanted - offset(wanted, zone);
  const better = wanted - offset(guess, zone);
  return wall(better, zone) === wanted ? better : guess;
}

export interface MonthDay {
  /** `2026-03-29` */
  key: string;
  day: number;
  start: number;
  end: number;
  change: Change | null;
}

/** The days of a month (0 is January) in a zone, and how many empty cells come before a Monday grid. */
export function monthDays(year: number, month: number, zone: string): { before: number; days: MonthDay[] } {
  const count = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  const starts = Array.from({ length: count + 1 }, (_, index) => dayStart(year, month, index + 1, zone));
  const all = changes(zone, starts[0]!, starts[count]!);
  const days = Array.from({ length: count }, (_, index) => {
    const [start, end] = [starts[index]!, starts[index + 1]!];
    return {
      key: new Date(Date.UTC(year, month, index + 1)).toISOString().slice(0, 10),
      day: index + 1,
      start,
      end,
      change: all.find((change) => change.at >= start && change.at < end) ?? null,
    };
  });
  return { before: (new Date(Date.UTC(year, month, 1)).getUTCDay() + 6) % 7, days };
}
