import type { event as en } from '../en/event';

export const event = {
  title: '发送事件',
  send: '发送事件',
  text: (namespace: string) => `命名空间 ${namespace} 中监听此事件的任务会启动，等待它的步骤会继续。`,
  name: '事件',
  nameHint: '字母、数字、- _ 和 .',
  params: '参数（JSON 对象，可选）',
  paramsHint: '会合并到每个任务的参数之上。',
  paramsWrong: '这不是 JSON 对象。',
  key: '幂等键（可选）',
  keyHint: '一天之内，键相同的事件只生效一次。',
  action: '发送事件',
  sent: (name: string) => `事件 ${name} 已保存`,
  sentText: '监听它的每个任务都会启动一次运行，即使有节点故障。',
  id: '事件编号',
  runs: '查看事件触发的运行',
  another: '再发一个',
} satisfies typeof en;
