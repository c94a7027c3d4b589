import type { hold as en } from '../en/hold';
import { num } from '../plural';

export const hold = {
  title: '停止启动…',
  ask: '停止启动？',
  text: '解除之前什么都不会启动：任务不再触发，运行会等待。已经开始的运行会继续。',
  what: '范围',
  namespace: (name: string) => `命名空间 ${name} 及其下级`,
  everything: '全部',
  reason: '原因',
  reasonHint: '所有受影响的人都能看到，并附上你的令牌名称。',
  until: '结束时间（可选）',
  untilHint: (zone: string) => `${zone} 时间，最长一年，到时自动解除。留空则一直持续，直到有人解除。`,
  fires: '期间的应执行时间',
  skip: '跳过',
  keep: '解除后补跑',
  action: '停止启动',
  heldNamespace: (name: string) => `命名空间 ${name} 已停止启动。`,
  heldAll: '已全部停止启动。',
  by: (by: string) => `操作人 ${by}`,
  ends: (at: string) => `到 ${at} 止`,
  kept: '解除后补跑',
  partly: (held: number, all: number) => `${num(all)} 个分片中只有 ${num(held)} 个生效：请重试，或解除。`,
  release: '解除',
  releaseTitle: '解除停止？',
  releaseText: '等待中的运行会立即启动。',
} satisfies typeof en;
