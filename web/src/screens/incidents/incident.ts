// How an incident is shown.
import type { Incident } from '../../api/types';

export type IncidentState = 'open' | 'acknowledged' | 'silenced' | 'over';

export function stateOf(incident: Incident): IncidentState {
  if (incident.ended_at) return 'over';
  if (incident.silence) return 'silenced';
  return incident.acknowledged ? 'acknowledged' : 'open';
}

const HOUR = 3_600_000;

/** The instant so many hours from now, such as `8h`. */
export function hoursFrom(now: number, span: string): string {
  return new Date(now + Number.parseInt(span, 10) * HOUR).toISOString();
}
