import { count } from '../plural';

export const workers = {
  title: 'Workers and nodes',
  answer: (n: number, busy: number, slots: number) =>
    n === 0 ? 'No worker is connected' : `${count(n, 'worker')}, ${busy} of ${count(slots, 'slot')} in use`,
  lost: (n: number) => `${n} lost`,
  labels: 'Labels',
  empty:
    'No worker is connected, so no run can start. A worker opens the connection itself and needs no open port:',
  noMatch: 'No worker has all these labels.',
  slotsOf: (busy: number, slots: number) => `${busy} of ${count(slots, 'slot')} in use`,
  more: (n: number) => `and ${n} more`,
  cpu: (percent: number) => `CPU ${percent} %`,
  memory: (percent: number) => `memory ${percent} %`,
  weight: (n: number) => `weight ${n}`,
  drain: 'Drain',
  drainTitle: (name: string) => `Drain ${name}?`,
  drainText:
    'It gets no more runs. Each run that it works on is stopped and continues on another worker at its last checkpoint.',
  resume: 'Resume',
  resumeTitle: (name: string) => `Give ${name} runs again?`,
  lostHint: 'Its heartbeats stopped. It gets no runs and is listed for an hour.',
  stuckHint:
    'It does not stop an attempt that it was told to stop. It gets no runs until that attempt has ended.',
  nodes: 'Nodes',
  shardsOf: (n: number, nodes: number) => `${count(n, 'shard')} led by ${count(nodes, 'node')}`,
  leads: (n: number) => count(n, 'shard'),
  noLeader: 'No node leads a shard, so nothing fires.',
  shards: 'Shards led',
  load: 'Load',
  percent: (n: number) => `${n} %`,
  running: 'Running',
  ready: 'Ready',
  version: 'Version',
  clock: 'Clock',
  clockOk: 'in step',
  notReady: 'Not ready',
  relaxed: 'Relaxed durability',
};
