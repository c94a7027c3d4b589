import { count } from '../plural';

export const deadLetters = {
  title: 'Dead letters',
  job: 'Job',
  pickJob: 'Job…',
  since: 'Dead since',
  attempts: 'Attempts',
  error: 'Error',
  params: 'Parameters',
  none: 'No dead letters. A run that uses up its attempts waits here until you replay or discard it.',
  noneMatch: 'No dead letter matches these filters.',
  replay: 'Replay…',
  replayNow: 'Replay',
  discard: 'Discard…',
  replayJob: 'Replay all of this job…',
  discardJob: 'Discard all of this job…',
  replayTitle: (name: string) => `Replay a dead letter of ${name}`,
  otherParams: 'With other parameters for all of them',
  bulk: {
    replay: {
      title: (n: number, more: boolean) => `Replay ${more ? 'the oldest ' : ''}${count(n, 'dead letter')}?`,
      text: 'Each becomes a new run with the same due time. A replay waits until its job has no active run.',
      action: 'Replay',
      button: (n: number) => `Replay ${count(n, 'dead letter')}`,
      done: (n: number) => `${count(n, 'dead letter')} replayed.`,
    },
    discard: {
      title: (n: number, more: boolean) => `Discard ${more ? 'the oldest ' : ''}${count(n, 'dead letter')}?`,
      text: 'They leave this list for good. Their runs stay in the history and can be retried there.',
      action: 'Discard',
      button: (n: number) => `Discard ${count(n, 'dead letter')}`,
      done: (n: number) => `${count(n, 'dead letter')} discarded.`,
    },
  },
};
