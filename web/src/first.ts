// What the screen at the address of the page needs first: its scripts and its first answers.
import { graphPage, overviewPath, runPath, shownRunPath } from './api/addresses';
import { readEarly } from './api/early';
import { match, namespaceOf, parse } from './lib/paths';
import { load } from './loaders';

let all: Promise<unknown> = Promise.resolve();

/** Begins to load and to read. Failures are not told: the screen asks again and tells them. */
export function beginFirst(hash: string): void {
  const { path, search } = parse(hash);
  const open = match(path);
  if (!open) return;
  const query = new URLSearchParams(search);
  const namespace = namespaceOf(query);
  // The screens ask for the same addresses.
  if (open.screen === 'now') all = readEarly(overviewPath(query.get('scope') === 'ns' ? namespace : null));
  if (open.screen === 'run') all = beginRun(namespace, open.params.id ?? '');
  all = Promise.allSettled([all, load(open.screen)]);
}

async function beginRun(namespace: string, id: string): Promise<unknown> {
  const run = await readEarly(shownRunPath(namespace, id));
  if (!(run as { workflow?: boolean } | undefined)?.workflow) return;
  const workflow = import('./screens/workflow/Workflow.svelte');
  return Promise.all([readEarly(graphPage(`${runPath(namespace, id)}/graph`)), workflow]);
}

/** Waits until all of it is there, but at most this long. */
export async function firstIsThere(most: number): Promise<void> {
  await Promise.race([all, new Promise((later) => setTimeout(later, most))]);
}
