import { count } from '../plural';

export const locks = {
  title: 'Locks',
  answer: (n: number, more: boolean) =>
    n === 0 ? 'No lock is held' : `${more ? 'More than ' : ''}${count(n, 'lock')} held`,
  name: 'Lock',
  owner: 'Owner',
  since: 'Held since',
  expires: 'Expires',
  ttl: 'Ends without a renewal after',
  fence: 'Fence',
  waiting: (n: number) =>
    n === 0
      ? 'No caller waits for it'
      : `${count(n, 'caller waits', 'callers wait')}; callers get the lock in this order`,
  free: 'The lock is free.',
  release: 'Release',
  releaseTitle: (name: string, owner: string) => `Take lock ${name} from ${owner}?`,
  releaseText:
    'The next caller gets the lock at once. The owner learns that the lock is lost when its next renewal is refused, and works until then.',
  empty:
    'With a lock, only one process at a time does something, on any number of machines. Run a command under a lock:',
};
