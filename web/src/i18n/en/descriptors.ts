import { count } from '../plural';

export const descriptors = {
  title: 'gRPC schemas',
  store: 'Store a schema',
  replace: 'Replace',
  replaceTitle: (name: string) => `Replace ${name}`,
  name: 'Name',
  size: 'Size',
  version: 'Version',
  updated: 'Changed',
  empty:
    'A stored schema lets jobs call a gRPC server that has no reflection. Compile your .proto files, then store the file here or with the second line:',
  missing: 'There is no such schema. It may have been deleted.',
  toList: 'All schemas',
  versionOf: (n: number) => `version ${n}`,
  download: 'Download',
  services: 'Services',
  methods: 'Methods that a job can call',
  methodCount: (n: number) => count(n, 'method'),
  noMethods: 'No method that a job can call: all its methods are streaming methods.',
  noServices: 'This schema has no service, only types.',
  use: 'A job that calls one of them names this schema:',
  file: 'Descriptor set (.binpb)',
  fileHint: 'Made by protoc --include_imports --descriptor_set_out or by buf build. At most 1 MiB.',
  tooLarge: (size: string) => `This file has ${size}. A descriptor set has at most 1 MiB.`,
  emptyFile: 'This file is empty. Choose the file that protoc or buf made.',
  replaceText:
    'Jobs keep the part that they copied when they were saved. Save a job again to use the new schema.',
  deleteTitle: (name: string) => `Delete the schema ${name}?`,
  deleteText:
    'Nothing brings it back. Jobs that use it keep their copy, but cannot be saved again with this name.',
};
