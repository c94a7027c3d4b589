import { count } from '../plural';

export const locks = {
  title: 'Locks',
  answer: (n: number, more: boolean) =>
    n === 0 ? 'No lock is held' : `${more ? 'More than ' : ''}${count(n, 'lock')} held`,
  name: 'Lock',
  owner: 'Owner',
  since: 'Held since',
  expires: 'Expires',
  ttl: 'Held without a renewal for',
  fence: 'Fence',
  waiting: (n: number) =>
    n === 0 ? 'No caller waits for it' : `${count(n, 'caller')} waiting, in this order`,
  free: 'The lock is free.',
  release: 'Release',
  releaseTitle: (name: string, owner: string) => `Take lock ${name} from ${owner}?`,
  releaseText:
    'The next caller gets the lock at once. The work of the owner goes on until the owner renews the lock and learns that it is lost.',
  empty:
    'A lock lets one process at a time do something, on any number of machines. Run a command under a lock:',
};
