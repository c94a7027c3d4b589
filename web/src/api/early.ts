// Reads that begin while the scripts of the page still load, so that the open screen finds its first answers there.
//
// Only successes are kept. After a failure the screen asks again, and tells what is wrong.
import { storedToken } from './token';

/** An answer that nothing asked for in this time is forgotten: it would be old. */
const KEPT_MS = 10_000;

interface Early {
  token: string | null;
  /** The parsed answer; undefined means that there is none. */
  answer: Promise<unknown>;
}

const begun = new Map<string, Early>();

/** Begins to read. The answer goes to the first `api.get` of this address. */
export function readEarly(path: string): Promise<unknown> {
  const token = storedToken();
  const headers: HeadersInit = token ? { authorization: `Bearer ${token}` } : {};
  const answer = fetch(path, { headers })
    .then((response) => (response.ok ? response.json() : undefined))
    .catch(() => undefined);
  begun.set(path, { token, answer });
  setTimeout(() => begun.delete(path), KEPT_MS);
  return answer;
}

/** The answer of a read that began with this token, once. Undefined means that there is none. */
export function takeEarly(path: string, token: string | null): Promise<unknown> | undefined {
  const early = begun.get(path);
  begun.delete(path);
  return early?.token === token ? early.answer : undefined;
}
