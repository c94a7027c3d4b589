import type { jobs as en } from '../en/jobs';
import { num } from '../plural';

export const jobs = {
  title: '任务',
  create: '新建任务',
  search: '搜索名称和标签',
  state: '状态',
  labels: '标签',
  sort: '排序',
  sorts: {
    attention: '需要关注的在前',
    name: '按名称',
    next: '按下次触发',
    late: '延迟大的在前',
  },
  count: (n: number, more: boolean) => (more ? `超过 ${num(n)} 个任务` : `${num(n)} 个任务`),
  name: '任务',
  schedule: '调度',
  lastRuns: (n: number) => `最近 ${n} 次运行`,
  next: '下次触发',
  late: '延迟 p99',
  nothing: '没有符合筛选条件的任务。',
  first: '此命名空间还没有任务。点击一下即可创建第一个任务，它每 10 秒输出一个词。',
  firstRead: '此命名空间还没有任务。有编辑权限的人可以在终端创建：',
  createHello: '创建任务 hello',
  createOwn: '自己编写任务',
} satisfies typeof en;
