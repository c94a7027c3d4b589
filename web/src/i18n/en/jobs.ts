import { count } from '../plural';

export const jobs = {
  title: 'Jobs',
  create: 'New job',
  search: 'Search names and labels',
  state: 'State',
  labels: 'Labels',
  sort: 'Order',
  sorts: {
    attention: 'Needs attention first',
    name: 'By name',
    next: 'Next fire first',
    late: 'Latest first',
  },
  count: (n: number, more: boolean) => (more ? `more than ${count(n, 'job')}` : count(n, 'job')),
  name: 'Job',
  schedule: 'Schedule',
  lastRuns: (n: number) => `Last ${n} runs`,
  next: 'Next fire',
  late: 'Lateness p99',
  nothing: 'No job matches these filters.',
  first:
    'There is no job in this namespace yet. One click creates a first one, which prints a word every ten seconds.',
  firstRead: 'There is no job in this namespace yet. Someone who may edit jobs can create one in a terminal:',
  createHello: 'Create the job hello',
  createOwn: 'Write my own job',
};
