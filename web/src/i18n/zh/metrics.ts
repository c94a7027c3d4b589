import type { metrics as en } from '../en/metrics';
import { num } from '../plural';

export const metrics = {
  title: '监控指标',
  of: (node: string) => `${node} 的监控指标`,
  text: '响应此页面的节点的监控指标。Prometheus 从每个节点读取同样的文本。',
  families: (n: number) => `${num(n)} 个指标`,
  search: '搜索指标…',
  again: '重新读取',
  download: '下载',
  noMatch: '没有指标的名称、说明或标签包含此文本。',
  noSamples: '还没有数值。',
} satisfies typeof en;
