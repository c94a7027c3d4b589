import { num } from '../plural';

export const hold = {
  title: 'Hold…',
  ask: 'Put on hold?',
  text: 'Until the hold ends, no job fires and no attempt starts; runs wait. Started attempts go on.',
  what: 'What to hold',
  namespace: (name: string) => `Namespace ${name} and the namespaces inside it`,
  everything: 'Everything',
  reason: 'Reason',
  reasonHint: 'Everyone whose runs wait sees the reason and the name of your token.',
  until: 'Until (optional)',
  untilHint: (zone: string) =>
    `In ${zone}, at most a year from now. At this time the hold ends by itself. If empty, it lasts until someone releases it.`,
  fires: 'Due times during the hold',
  skip: 'Skip them',
  keep: 'Backfill them after the hold',
  action: 'Hold',
  heldNamespace: (name: string) => `Namespace ${name} is on hold: nothing starts.`,
  heldAll: 'Everything is on hold: nothing starts.',
  by: (by: string) => `By ${by}`,
  ends: (at: string) => `until ${at}`,
  kept: 'due times are backfilled after the hold',
  partly: (held: number, all: number) =>
    `Only ${num(held)} of ${num(all)} shards have the hold; runs of the other shards still start. Order the hold again, or release it.`,
  release: 'Release',
  releaseTitle: 'Release the hold?',
  releaseText: 'Runs that wait start at once, and jobs fire again, unless another hold covers them.',
};
