import type { states as en } from '../en/states';

export const states = {
  waiting: '等待中',
  ready: '就绪',
  running: '运行中',
  cancelling: '取消中',
  succeeded: '成功',
  failed: '失败',
  timed_out: '超时',
  cancelled: '已取消',
  skipped: '已跳过',
  active: '启用',
  paused: '已暂停',
  finished: '已结束',
  lost: '失联',
  alive: '在线',
  draining: '排空中',
  stuck: '卡住',
  open: '未开始',
  approval: '待审批',
} satisfies typeof en;
