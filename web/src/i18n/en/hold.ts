import { num } from '../plural';

export const hold = {
  title: 'Hold…',
  ask: 'Put on hold?',
  text: 'Nothing starts until the hold is released: no job fires, and runs wait. Runs that have started go on.',
  what: 'What',
  namespace: (name: string) => `Namespace ${name} and those inside it`,
  everything: 'Everything',
  reason: 'Reason',
  reasonHint: 'Everyone whose runs wait sees it, with the name of your token.',
  until: 'Until (optional)',
  untilHint: (zone: string) =>
    `In ${zone}, within a year: then the hold ends by itself. Empty: until someone releases it.`,
  fires: 'Due times meanwhile',
  skip: 'Skip them',
  keep: 'Make up for them after the hold',
  action: 'Hold',
  heldNamespace: (name: string) => `Namespace ${name} is on hold: nothing starts.`,
  heldAll: 'Everything is on hold: nothing starts.',
  by: (by: string) => `By ${by}`,
  ends: (at: string) => `until ${at}`,
  kept: 'due times are made up for',
  partly: (held: number, all: number) =>
    `Only ${num(held)} of ${num(all)} shards hold: repeat the order, or release it.`,
  release: 'Release',
  releaseTitle: 'Release the hold?',
  releaseText: 'What waits starts at once.',
};
