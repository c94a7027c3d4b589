import type { queues as en } from '../en/queues';
import { num } from '../plural';

export const queues = {
  title: '队列',
  search: '按名称筛选',
  name: '名称',
  depth: '就绪',
  depthLine: '打开页面以来',
  depthOf: (n: number) => `当前有 ${num(n)} 条消息就绪`,
  oldest: '队首消息加入于',
  nothingWaits: '没有消息等待',
  in: '流入',
  out: '流出',
  held: '延时或已取走',
  consumers: '空闲消费者',
  per: { s: '/秒', min: '/分钟' },
  paused: { in: '已暂停流入', out: '已暂停流出', all: '已暂停' },
  settings: {
    running: (n: number) => `最多 ${num(n)} 条未确认`,
    rate: (rate: string) => `投递速率不超过 ${rate}`,
    hold: (span: string) => `先滞留 ${span}`,
    deliveries: (n: number) => `最多投递 ${num(n)} 次`,
    deadLetter: '死信队列：',
  },
  empty: '还没有队列。添加第一条消息即可创建队列，可在此添加，也可将以下命令粘贴到终端：',
  noMatch: '没有名称包含此文本的队列。',
  cut: (n: number) => `仅显示前 ${num(n)} 个队列。`,
  nextPage: '下一页',
} satisfies typeof en;
