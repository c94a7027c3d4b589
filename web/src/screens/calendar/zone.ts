// Local days and hours of a zone, with the browser's time zone data.
const formats = new Map<string, Intl.DateTimeFormat>();

export interface Local {
  /** `2026-11-17` */
  day: string;
  hour: number;
  minute: number;
}

export function local(at: number, zone: string): Local {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat('en-CA', {
      timeZone: zone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      hourCycle: 'h23',
    });
    formats.set(zone, format);
  }
  const part: Record<string, string> = {};
  for (const { type, value } of format.formatToParts(at)) part[type] = value;
  return {
    day: `${part.year}-${part.month}-${part.day}`,
    hour: Number(part.hour),
    minute: Number(part.minute),
  };
}

const DAY = 86_400_000;

/** `2026-11-17` and a number of days: `2026-11-20`. */
export function addDays(day: string, count: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + count * DAY).toISOString().slice(0, 10);
}

/** 0 is Monday. */
export function weekday(day: string): number {
  return (new Date(`${day}T00:00:00Z`).getUTCDay() + 6) % 7;
}

export function mondayOf(day: string): string {
  return addDays(day, -weekday(day));
}

/** The first instant of a local day; where midnight is skipped, the first one after it. */
export function startOf(day: string, zone: string): number {
  const wanted = Date.parse(`${day}T00:00:00Z`);
  const offset = (at: number) => {
    const here = local(at, zone);
    return Date.parse(`${here.day}T00:00:00Z`) + (here.hour * 60 + here.minute) * 60_000 - at;
  };
  // The offset before and after a change; the earlier instant that is on the day wins.
  const guesses = [
    wanted - offset(wanted - DAY / 2),
    wanted - offset(wanted),
    wanted - offset(wanted + DAY / 2),
  ];
  const onDay = guesses.filter((at) => local(at, zone).day === day).sort((a, b) => a - b);
  return onDay[0] ?? wanted - offset(wanted);
}
