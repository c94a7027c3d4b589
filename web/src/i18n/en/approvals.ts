import { count } from '../plural';

export const approvals = {
  title: 'Waiting approvals',
  answer: (n: number, more: boolean) =>
    n === 0
      ? 'No step waits for an approval'
      : `${more ? 'More than ' : ''}${count(n, 'step')} ${n === 1 && !more ? 'waits' : 'wait'} for an approval`,
  step: 'Step',
  job: 'Job',
  run: 'Run',
  since: 'Waits since',
  until: 'Counts as rejected',
  never: 'never',
  noJob: 'without a job',
  openRun: 'Open the workflow',
  decided: 'This step no longer waits for an approval. A person may have decided, or its time is over.',
  empty:
    'A workflow can wait for a person before it goes on. Write approve instead of a task in one of its steps, then run the job:',
};
