// The state of the job editor: one text, from which the form, the errors and the preview follow.
import { getContext, setContext } from 'svelte';
import { api, asApiError, inNs, isAbort, url, type ApiError } from '../../api/client';
import type { Checked, Graph } from '../../api/types';
import { router } from '../../lib/router.svelte';
import { lineOf, parse, place, toPath, withField, type Mark, type Path } from './document';

const CALM_MS = 300;
const AGAIN_MS = 2_000;
const YAML = { 'content-type': 'application/yaml' };
const KEY = Symbol('editor');

export class JobEditor {
  text: string = $state('');
  saved: string = $state('');
  readonly parsed = $derived(parse(this.text));
  /** What the server said of the text, or null. */
  problem: ApiError | null = $state.raw(null);
  checked: Checked | null = $state.raw(null);
  checking = $state(false);
  /** The workflow as it was when the text was last right; null if it is none. */
  graph: Graph | null = $state.raw(null);

  readonly dirty: boolean = $derived(this.text !== this.saved);
  readonly marks: Mark[] = $derived.by(() => {
    if (this.parsed.errors.length > 0) return this.parsed.errors;
    const made: Mark[] = [];
    const add = (field: string, message: string, kind: Mark['kind']) => {
      const at = place(this.parsed, field);
      made.push({ ...at, line: lineOf(this.text, at.from), message, kind });
    };
    if (this.problem) add(this.problem.field ?? '', this.problem.message, 'error');
    for (const warning of this.checked?.warnings ?? []) add(warning.field, warning.message, 'warning');
    return made;
  });

  constructor(text: string) {
    this.text = text;
    this.saved = text;
  }

  /** Asks the server about the text a moment after it changed. Call it in an effect. */
  watch(): () => void {
    const [text, readable] = [this.text, this.parsed.errors.length === 0];
    const stop = new AbortController();
    if (!readable || !text.trim()) {
      this.problem = null;
      this.checked = null;
      return () => {};
    }
    const timer = setTimeout(() => void this.#check(text, stop.signal), CALM_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }

  async #check(text: string, signal: AbortSignal): Promise<void> {
    this.checking = true;
    try {
      const path = url(inNs(router.namespace, 'jobs', 'validate'), { graph: 'true' });
      this.checked = await api.post<Checked>(path, text, { headers: YAML, signal });
      this.problem = null;
      this.graph = this.checked.graph ?? null;
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      const { status } = asApiError(error);
      // A busy or unreachable server says nothing about the text: ask again.
      const isVerdict = status >= 400 && status < 500 && status !== 429;
      this.problem = isVerdict ? asApiError(error) : null;
      this.checked = null;
      if (!isVerdict) setTimeout(() => !signal.aborted && void this.#check(text, signal), AGAIN_MS);
    }
    this.checking = false;
  }

  get(path: Path): unknown {
    let value: unknown = this.parsed.value;
    for (const part of path) value = (value as Record<string | number, unknown> | null | undefined)?.[part];
    return value;
  }

  set(path: Path, value: unknown): void {
    this.text = withField(this.text, path, value);
  }

  /** The error at a field; with `deep`, also at one inside of it. */
  errorAt(path: Path, deep = false): string | null {
    const field = this.problem?.field;
    if (!field || this.parsed.errors.length > 0) return null;
    const at = toPath(field);
    // The server may leave the index out if there is one schedule.
    const matches = path.every((part, index) => String(at[index]) === String(part));
    return matches && (deep || at.length === path.length) ? (this.problem?.message ?? null) : null;
  }

  /** Saves the text: creates the job, or replaces `revision`. */
  async save(name: string, revision: number | null): Promise<void> {
    const expected: Record<string, string> =
      revision === null ? { 'if-none-match': '*' } : { 'if-match': `"${revision}"` };
    const headers = { ...YAML, ...expected };
    await api.put(inNs(router.namespace, 'jobs', name), this.text, { headers });
    this.saved = this.text;
  }
}

export function provideEditor(editor: JobEditor): JobEditor {
  return setContext(KEY, editor);
}

export function getEditor(): JobEditor {
  return getContext<JobEditor>(KEY);
}
