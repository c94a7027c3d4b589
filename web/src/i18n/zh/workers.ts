import type { workers as en } from '../en/workers';
import { num } from '../plural';

export const workers = {
  title: '执行节点与节点',
  answer: (n: number, busy: number, slots: number) =>
    n === 0 ? '没有执行节点连接' : `${num(n)} 个执行节点，已用 ${num(busy)} / ${num(slots)} 个槽位`,
  lost: (n: number) => `${num(n)} 个失联`,
  labels: '标签',
  empty: '没有执行节点连接，所有运行都无法开始。执行节点会主动连接，无需开放端口：',
  noMatch: '没有执行节点同时具有这些标签。',
  slotsOf: (busy: number, slots: number) => `已用 ${num(busy)} / ${num(slots)} 个槽位`,
  more: (n: number) => `另有 ${num(n)} 个`,
  cpu: (percent: number) => `CPU ${percent}%`,
  memory: (percent: number) => `内存 ${percent}%`,
  weight: (n: number) => `权重 ${n}`,
  lostHint: '心跳已中断，不再分配运行，一小时后不再列出。',
  nodes: '节点',
  shardsOf: (n: number, nodes: number) => `${num(nodes)} 个节点主管 ${num(n)} 个分片`,
  leads: (n: number) => `${num(n)} 个分片`,
  noLeader: '没有节点主管分片，任何任务都不会触发。',
  shards: '主管分片',
  load: '负载',
  percent: (n: number) => `${n}%`,
  running: '运行中',
  ready: '就绪',
  version: '版本',
  clock: '时钟',
  clockOk: '一致',
  notReady: '未就绪',
  relaxed: '宽松持久性',
} satisfies typeof en;
