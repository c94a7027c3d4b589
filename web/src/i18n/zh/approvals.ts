import type { approvals as en } from '../en/approvals';
import { num } from '../plural';

export const approvals = {
  title: '待审批',
  answer: (n: number, more: boolean) =>
    n === 0 ? '没有步骤等待审批' : `${more ? '超过 ' : ''}${num(n)} 个步骤等待审批`,
  step: '步骤',
  job: '任务',
  run: '运行',
  since: '开始等待',
  until: '逾期视为驳回',
  never: '不限期',
  noJob: '不属于任务',
  openRun: '打开工作流',
  decided: '此步骤已不再等待审批，可能已有人处理，或已逾期。',
  empty: '工作流可以在继续之前等待人工审批。为某个步骤写上 approve 来代替执行内容，再运行任务：',
} satisfies typeof en;
