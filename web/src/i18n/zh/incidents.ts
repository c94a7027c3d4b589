import type { incidents as en } from '../en/incidents';
import { num } from '../plural';

type Words = Record<string, unknown>;
const text = (value: unknown) => (value === undefined || value === null ? '' : String(value));

export const incidents = {
  title: '告警事件',
  answer: (n: number, more: boolean) =>
    n === 0 ? '没有未恢复的告警事件' : `${more ? '超过 ' : ''}${num(n)} 个告警事件未恢复`,
  job: '任务',
  channel: (name: string) => `通道 ${name}`,
  step: (job: string, step: string) => `${job}，步骤 ${step}`,
  condition: '条件',
  since: '开始时间',
  count: '次数',
  state: '状态',
  states: { open: '未处理', acknowledged: '已确认', silenced: '已静默', over: '已恢复' },
  all: '显示已恢复的',
  error: '错误',
  run: '最近一次运行',
  ended: '恢复时间',
  last: '最近一次发生',
  notified: '已通知',
  notifiedTimes: (n: number) => `${num(n)} 次`,
  acknowledged: '已确认',
  silencedUntil: '静默至',
  by: (by: string) => `操作人 ${by}`,
  comment: '备注',
  acknowledge: '确认',
  silence: '静默',
  silenceFor: '静默时长',
  spans: { '1h': '1 小时', '8h': '8 小时', '24h': '1 天', '168h': '7 天' },
  unsilence: '结束静默',
  gone: '找不到此告警事件，或它已恢复超过一周。',
  empty: '满足条件时，任务会通知相关人员。在任务文件中写明条件：',
  unreachable: '通知无法送达',
  on: (on: Words): string => {
    switch (on['on']) {
      case 'failed':
        if (on['of']) return `${text(on['in'])} 内有 ${text(on['of'])} 次运行失败`;
        return on['after'] === 1 ? '运行失败' : `连续 ${text(on['after'])} 次运行失败`;
      case 'late':
        return `运行延迟超过 ${text(on['by'])}`;
      case 'long':
        return `运行耗时超过 ${text(on['by'])}`;
      case 'deadline':
        return `未在 ${text(on['at'])}（${text(on['timezone'])}）前成功`;
      case 'dead_letter':
        return '出现死信';
      case 'missing':
        return `超过 ${text(on['within'])} 没有成功的运行`;
      default:
        return text(on['on']) || '条件成立';
    }
  },
} satisfies typeof en;
