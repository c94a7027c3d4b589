import type { hold as en } from '../en/hold';
import { num } from '../plural';

export const hold = {
  title: '冻结…',
  ask: '冻结？',
  text: '解冻之前，任务不再触发，也不会启动新的尝试，运行会等待。已经开始的尝试会继续。',
  what: '范围',
  namespace: (name: string) => `命名空间 ${name} 及其下级命名空间`,
  everything: '全部命名空间',
  reason: '原因',
  reasonHint: '所有受影响的人都能看到此原因和你的令牌名称。',
  until: '结束时间（可选）',
  untilHint: (zone: string) => `${zone} 时间，最长一年，到时自动解冻。留空则一直持续，直到有人解冻。`,
  fires: '期间的应执行时间',
  skip: '跳过',
  keep: '解冻后补跑',
  action: '冻结',
  heldNamespace: (name: string) => `命名空间 ${name} 已冻结：任务不触发，运行会等待。`,
  heldAll: '所有命名空间已冻结：任务不触发，运行会等待。',
  by: (by: string) => `操作人 ${by}`,
  ends: (at: string) => `到 ${at} 止`,
  kept: '解冻后补跑',
  partly: (held: number, all: number) =>
    `${num(all)} 个分片中只有 ${num(held)} 个生效，其余分片的运行仍会启动。请再次提交冻结，或解冻。`,
  release: '解冻',
  releaseTitle: '解冻？',
  releaseText: '等待中的运行会立即启动，任务恢复触发；仍受其他冻结影响的除外。',
} satisfies typeof en;
