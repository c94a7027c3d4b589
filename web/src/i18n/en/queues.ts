import { count, num } from '../plural';

export const queues = {
  title: 'Queues',
  search: 'Filter by name',
  name: 'Name',
  depth: 'Ready',
  depthLine: 'Since you opened it',
  depthOf: (n: number) => `${count(n, 'message')} ready now`,
  oldest: 'Next one added',
  nothingWaits: 'nothing waits',
  in: 'In',
  out: 'Out',
  held: 'Delayed or taken',
  consumers: 'Consumers idle',
  per: { s: '/s', min: '/min' },
  paused: { in: 'Paused: in', out: 'Paused: out', all: 'Paused' },
  settings: {
    running: (n: number) => `${num(n)} unacknowledged at most`,
    rate: (rate: string) => `${rate} delivered at most`,
    hold: (span: string) => `held for ${span}`,
    deliveries: (n: number) => `${n === 1 ? 'one delivery' : `${num(n)} deliveries`} at most`,
    deadLetter: 'then to',
  },
  empty: 'There is no queue yet. The first message makes one. Add it here, or paste this into a terminal:',
  noMatch: 'No queue has this text in its name.',
  cut: (n: number) => `The first ${count(n, 'queue')} are shown.`,
  nextPage: 'Next page',
};
