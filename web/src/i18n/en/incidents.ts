import { count } from '../plural';

type Words = Record<string, unknown>;
const text = (value: unknown) => (value === undefined || value === null ? '' : String(value));

export const incidents = {
  title: 'Incidents',
  answer: (n: number, more: boolean) =>
    n === 0 ? 'No incident is open' : `${more ? 'More than ' : ''}${count(n, 'incident')} open`,
  job: 'Job',
  channel: (name: string) => `Channel ${name}`,
  step: (job: string, step: string) => `${job}, step ${step}`,
  condition: 'Condition',
  since: 'Open since',
  count: 'Count',
  state: 'State',
  states: { open: 'Open', acknowledged: 'Acknowledged', silenced: 'Silenced', over: 'Over' },
  all: 'Show incidents that are over',
  error: 'Error',
  run: 'Last run',
  ended: 'Over since',
  last: 'Last met',
  notified: 'Notified',
  notifiedTimes: (n: number) => (n === 1 ? 'once' : count(n, 'time')),
  acknowledged: 'Acknowledged',
  silencedUntil: 'Silenced until',
  by: (by: string) => `by ${by}`,
  comment: 'Comment',
  acknowledge: 'Acknowledge',
  silence: 'Silence',
  silenceFor: 'Silence for',
  spans: { '1h': '1 hour', '8h': '8 hours', '24h': '1 day', '168h': '7 days' },
  unsilence: 'End the silence',
  gone: 'This incident is not known, or it was over more than a week ago.',
  empty: 'A job notifies people when one of its conditions holds. Write the conditions into the job file:',
  unreachable: 'notifications cannot be sent',
  on: (on: Words): string => {
    switch (on['on']) {
      case 'failed':
        if (on['of']) return `${text(on['of'])} runs failed within ${text(on['in'])}`;
        return on['after'] === 1 ? 'a run failed' : `${text(on['after'])} runs failed in a row`;
      case 'late':
        return `a run is late by ${text(on['by'])}`;
      case 'long':
        return `a run takes longer than ${text(on['by'])}`;
      case 'deadline':
        return `no run succeeded by ${text(on['at'])} ${text(on['timezone'])}`;
      case 'dead_letter':
        return 'a run is a dead letter';
      case 'missing':
        return `no run succeeded for ${text(on['within'])}`;
      default:
        return text(on['on']) || 'a condition holds';
    }
  },
};
