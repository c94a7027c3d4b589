// Actions on many things: requests of at most 1,000 ids, and their results in a few words.
import type { Decision } from '../api/types';

export const BATCH = 1000;

/** With ids one request per 1,000; without them exactly one, so that nothing is hit twice. */
export function inBatches<R extends { action: string; ids?: string[] | null }>(request: R): R[] {
  const { ids } = request;
  if (!ids) return [request];
  const made: R[] = [];
  for (let from = 0; from < ids.length; from += BATCH)
    made.push({ ...request, ids: ids.slice(from, from + BATCH) });
  return made;
}

export interface Summary {
  done: number;
  refused: number;
  /** One entry per code, the most frequent first. */
  problems: { code: string; message: string; count: number; example: string }[];
}

export function summary(results: Decision[]): Summary {
  const by = new Map<string, Summary['problems'][number]>();
  for (const { id, done, run, problem } of results) {
    if (done) continue;
    // No problem: the new run was made, and the overlap policy skipped it.
    const code = problem?.code ?? 'skipped';
    const entry = by.get(code) ?? { code, message: problem?.message ?? '', count: 0, example: run ?? id };
    entry.count += 1;
    by.set(code, entry);
  }
  const done = results.filter((result) => result.done).length;
  return {
    done,
    refused: results.length - done,
    problems: [...by.values()].sort((a, b) => b.count - a.count),
  };
}
