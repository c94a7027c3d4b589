import type { deadLetters as en } from '../en/dead-letters';
import { num } from '../plural';

export const deadLetters = {
  title: '死信',
  job: '任务',
  pickJob: '任务…',
  since: '进入死信',
  attempts: '尝试次数',
  error: '错误',
  params: '参数',
  none: '没有死信。用完全部尝试次数的运行会停在这里，等待重放或丢弃。',
  noneMatch: '没有符合筛选条件的死信。',
  replay: '重放…',
  replayNow: '重放',
  discard: '丢弃…',
  replayJob: '重放此任务的全部死信…',
  discardJob: '丢弃此任务的全部死信…',
  replayTitle: (name: string) => `重放 ${name} 的死信`,
  otherParams: '全部使用新的参数',
  bulk: {
    replay: {
      title: (n: number, more: boolean) => `重放${more ? '最早的' : ''} ${num(n)} 条死信？`,
      text: '每条死信都会生成一个新的运行，应执行时间不变。任务没有进行中的运行时才会开始。',
      action: '重放',
      button: (n: number) => `重放 ${num(n)} 条死信`,
      done: (n: number) => `已重放 ${num(n)} 条死信。`,
    },
    discard: {
      title: (n: number, more: boolean) => `丢弃${more ? '最早的' : ''} ${num(n)} 条死信？`,
      text: '死信会从列表中永久移除。对应的运行仍保留在历史记录中，可以在那里重试。',
      action: '丢弃',
      button: (n: number) => `丢弃 ${num(n)} 条死信`,
      done: (n: number) => `已丢弃 ${num(n)} 条死信。`,
    },
  },
} satisfies typeof en;
