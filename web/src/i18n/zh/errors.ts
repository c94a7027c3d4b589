import type { errors as en } from '../en/errors';

export const errors = {
  what: (what: string) => `${what}失败。`,
  read: '服务器的响应不符合预期。',
  unreachable: '没有收到响应。请检查节点是否在运行，以及此页面能否访问它。',
  unauthenticated: '请使用有效的令牌登录。',
  forbidden: '当前令牌没有此权限，请向管理员申请其他角色的令牌。',
  tooBusy: '服务器繁忙，请稍后重试。',
  gone: '它可能已被删除，请返回列表。',
  conflict: '它已被他人修改，请查看最新状态后再试。',
  invalid: '请修改输入后再试。',
  other: '请重试。如果仍然失败，请用错误码查阅文档和节点日志。',
} satisfies typeof en;
