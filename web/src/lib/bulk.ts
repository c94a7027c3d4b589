// Actions on many things: requests of at most 1,000 ids, and their results in a few words.
import { asApiError } from '../api/client';
import type { Decision, Problem } from '../api/types';

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
  problems: { code: string; message: string; count: number; example: string; ids: string[] }[];
}

export function summary(results: Decision[]): Summary {
  const by = new Map<string, Summary['problems'][number]>();
  for (const { id, done, run, problem } of results) {
    if (done) continue;
    // No problem: the new run was made, and the overlap policy skipped it.
    const code = problem?.code ?? 'skipped';
    const entry = by.get(code) ?? {
      code,
      message: problem?.message ?? '',
      count: 0,
      example: run ?? id,
      ids: [],
    };
    entry.count += 1;
    entry.ids.push(id);
    by.set(code, entry);
  }
  const done = results.filter((result) => result.done).length;
  return {
    done,
    refused: results.length - done,
    problems: [...by.values()].sort((a, b) => b.count - a.count),
  };
}

/** Why nothing was done to one thing. */
export function problemOf(code: string, message: string): Problem {
  return { code, message } as Problem;
}

/** Requests at the same time: as many as a browser sends to one server. */
const AT_ONCE = 6;
/** With these, the request is wrong and not the thing it names. */
const IS_WRONG = [400, 401, 403, 422];

/**
 * Acts on each id with a request of its own, so that each has its own result; `act` throws what the server refuses. The
 * first goes alone: if the request itself is wrong, nothing is done and its error is thrown.
 */
export async function itemByItem(ids: string[], act: (id: string) => Promise<unknown>): Promise<Decision[]> {
  const results: Decision[] = [];
  const one = async (id: string) => {
    try {
      await act(id);
      results.push({ id, done: true });
    } catch (caught) {
      const { status, code, message } = asApiError(caught);
      if (results.length === 0 && IS_WRONG.includes(status)) throw caught;
      results.push({ id, done: false, problem: problemOf(code, message) });
    }
  };
  const left = [...ids];
  const lane = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) await one(id);
  };
  const first = left.shift();
  if (first !== undefined) await one(first);
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return results;
}
