// The requests that hold and release, and the command lines that do the same.
import { inNs } from '../api/client';
import type { Hold, PutHold } from '../api/types';
import { commands, option, type Commands } from '../lib/commands';
import { router } from '../lib/router.svelte';
import { fromLocal } from '../lib/time';

/** The path of the hold of a namespace, or (`null`) of everything. */
export function holdPath(namespace: string | null): string {
  return namespace === null ? '/api/v1/hold' : inNs(namespace, 'hold');
}

/** `until` is the text of an input of the type `datetime-local`. */
export function holdBody(reason: string, until: string, fires: Hold['fires']): PutHold {
  const end = fromLocal(until);
  return { reason: reason.trim(), ...(end ? { until: end } : {}), ...(fires === 'keep' ? { fires } : {}) };
}

function words(verb: string, namespace: string | null): string[] {
  if (namespace === null) return [verb, '--everywhere'];
  return namespace === router.namespace ? [verb] : [verb, '-n', namespace];
}

export function holdCommands(namespace: string | null, body: PutHold): Commands {
  const options = Object.entries(body).flatMap(([name, value]) => option(name, String(value)));
  return commands([...words('hold', namespace), ...options], 'PUT', holdPath(namespace), body);
}

export function releaseCommands(namespace: string | null): Commands {
  return commands(words('release', namespace), 'DELETE', holdPath(namespace));
}
