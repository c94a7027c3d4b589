import type { locks as en } from '../en/locks';
import { num } from '../plural';

export const locks = {
  title: '锁',
  answer: (n: number, more: boolean) =>
    n === 0 ? '没有被持有的锁' : `${more ? '超过 ' : ''}${num(n)} 个锁被持有`,
  name: '锁',
  owner: '持有者',
  since: '开始持有时间',
  expires: '到期时间',
  ttl: '不续期的持有时长',
  fence: '栅栏编号（fence）',
  waiting: (n: number) => (n === 0 ? '没有等待者' : `${num(n)} 个等待者，按以下顺序获得此锁`),
  free: '此锁空闲。',
  release: '释放',
  releaseTitle: (name: string, owner: string) => `从 ${owner} 收回锁 ${name}？`,
  releaseText: '下一个等待者会立即获得此锁。持有者会继续工作，直到下次续期被拒绝，才知道已失去此锁。',
  empty: '使用锁，无论有多少台机器，同一时间只有一个进程做某件事。在锁的保护下运行命令：',
} satisfies typeof en;
