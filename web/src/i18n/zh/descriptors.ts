import type { descriptors as en } from '../en/descriptors';
import { num } from '../plural';

export const descriptors = {
  title: 'gRPC 接口描述',
  store: '存储接口描述',
  replace: '替换',
  replaceTitle: (name: string) => `替换 ${name}`,
  name: '名称',
  size: '大小',
  version: '版本',
  updated: '修改于',
  empty:
    '对于没有开启反射的 gRPC 服务器，任务可以使用已存储的接口描述来调用。先编译 .proto 文件，再在此上传，或运行第二行命令：',
  missing: '没有这个接口描述，它可能已被删除。',
  toList: '全部接口描述',
  versionOf: (n: number) => `版本 ${n}`,
  download: '下载',
  services: '服务',
  methods: '任务可调用的方法',
  methodCount: (n: number) => `${num(n)} 个方法`,
  noMethods: '没有任务可调用的方法：全部为流式方法。',
  noServices: '此接口描述只有类型，没有服务。',
  use: '任务调用其中的方法时，写上此接口描述的名称：',
  file: '描述文件（.binpb）',
  fileHint: '由 protoc --include_imports --descriptor_set_out 或 buf build 生成，最大 1 MiB。',
  tooLarge: (size: string) => `此文件为 ${size}，描述文件最大 1 MiB。`,
  emptyFile: '此文件为空。请选择由 protoc 或 buf 生成的文件。',
  replaceText: '任务在保存时已复制所需的部分。要使用新的接口描述，请重新保存任务。',
  deleteTitle: (name: string) => `删除接口描述 ${name}？`,
  deleteText: '删除后无法恢复。使用它的任务仍保留副本，但无法再以此名称保存。',
} satisfies typeof en;
