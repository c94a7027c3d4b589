import type { submit as en } from '../en/submit';

export const submit = {
  title: '提交运行',
  text: '不属于任何任务的一次运行，只执行一次。',
  action: '提交运行',
  run: '运行的定义（YAML 或 JSON）',
  further: '除执行内容（task）外，还可以写',
  notMap: '请写成键值形式，至少包含 task。',
  params: '参数（JSON 对象，可选）',
  paramsWrong: '这不是 JSON 对象。',
  due: '应执行时间',
  when: { now: '立即', delay: '推迟一段时间', at: '指定时间' },
  delay: '推迟',
  delayHint: '例如 90s、30m 或 2d。',
  at: '时间',
  atHint: (zone: string) => `${zone} 时间。`,
  key: '幂等键（可选）',
  keyHint: '一天之内用同一个键提交，会打开第一次的运行。',
  priority: '优先级',
  priorityHint: '0 到 9，9 最先启动。',
} satisfies typeof en;
