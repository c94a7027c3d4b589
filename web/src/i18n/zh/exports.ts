import type { exports as en } from '../en/exports';

export const exports = {
  title: '导出历史',
  action: '下载',
  text: '全部命名空间的任务、运行、事件和跳过的应执行时间，每行一个 JSON 对象。可用 punctual verify 检查此文件。',
  from: '应执行时间不早于（可选）',
  to: '应执行时间不晚于（可选）',
  zone: (zone: string) => `${zone} 时间。只限制运行和跳过的应执行时间，任务始终包含在文件中。`,
  order: '结束时间早于开始时间。',
  received: (size: string) => `已接收 ${size}。下载完成之前请勿关闭此对话框。`,
} satisfies typeof en;
