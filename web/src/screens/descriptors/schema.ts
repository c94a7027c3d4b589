// What is the same for the screens of gRPC schemas: names, limits and command lines.
import { inNs } from '../../api/client';
import { commands, program, type Commands } from '../../lib/commands';
import { router } from '../../lib/router.svelte';
import { shellQuote } from '../../lib/text';

export const BYTES_MAX = 1024 * 1024;

export function descriptorPath(...name: string[]): string {
  return inNs(router.namespace, 'descriptors', ...name);
}

/** The name of a schema from the name of its file: `orders` of `orders.binpb`. */
export function nameOfFile(file: string): string {
  return file.replace(/\.[^.]*$/, '').replace(/[^A-Za-z0-9._-]+/g, '-');
}

/** A set can be longer than an argument of a program may be, so `curl` reads it from its input. */
export function storeCommands(name: string, file: string): Commands {
  const { cli, curl } = commands(['descriptor', 'apply', name, file], 'PUT', descriptorPath(name));
  const body = `printf '{"set_base64":"%s"}' "$(base64 < ${shellQuote(file)} | tr -d '\\n')"`;
  return { cli, curl: `${body} |\n  ${curl} -H 'Content-Type: application/json' -d @-` };
}

export function firstSchema(): string {
  return `protoc --include_imports --descriptor_set_out=orders.binpb orders.proto
${program()} descriptor apply orders orders.binpb`;
}
