// Reads the log of a run into rows: as events while the stream works, else as text every five seconds.
import { ApiError, asApiError, inNs, send, url } from '../../api/client';
import { inView, untilHidden } from '../../api/in-view';
import { follow } from '../../api/sse';
import { LogRows, type LogChunk } from './log-rows';

/** Work between two pauses, so that the page stays smooth while a long log arrives. */
const SLICE_MS = 8;
const RETRY_MS = [1_000, 2_000, 5_000];
const POLL_MS = 5_000;

export interface LogSource {
  namespace: string;
  run: string;
  /** Null: all attempts. */
  attempt: number | null;
  /** The run may still write. */
  open: boolean;
}

export class LogFeed {
  readonly rows = new LogRows();
  /** Grows when rows were added; read it to follow `rows`. */
  version = $state(0);
  status: 'loading' | 'live' | 'polling' | 'done' = $state('loading');
  error: ApiError | null = $state.raw(null);
  /** The first row that changed since `taken` was called. */
  #changed = 0;
  #sliceEnd = 0;
  #drawing = false;
  #last: string | null = null;
  #source: LogSource;
  #path: string;

  constructor(source: LogSource) {
    this.#source = source;
    this.#path = inNs(source.namespace, 'runs', source.run, 'logs');
  }

  /** The first row that changed since the last call. */
  taken(): number {
    const changed = this.#changed;
    this.#changed = this.rows.count;
    return changed;
  }

  start(): () => void {
    const stop = new AbortController();
    void this.#run(stop.signal);
    return () => stop.abort();
  }

  async #run(stop: AbortSignal): Promise<void> {
    for (let failures = 0; !stop.aborted && failures < 2;) {
      await inView(stop);
      const before = this.#last;
      try {
        const end = await this.#events(stop);
        if (end === 'complete') return;
        if (end === 'hidden') continue;
      } catch (caught) {
        if (stop.aborted) return;
        const error = asApiError(caught);
        // The node serves no more streams: read without one.
        if (error.status === 429) break;
        if (error.status >= 400 && error.status < 500) return this.#fail(error);
      }
      failures = this.#last === before ? failures + 1 : 1;
      await sleep(RETRY_MS[Math.min(failures, RETRY_MS.length) - 1] ?? POLL_MS, stop);
    }
    await this.#poll(stop);
  }

  /** Reads events until the stream ends, or until the page is hidden. */
  async #events(stop: AbortSignal): Promise<'complete' | 'hidden' | 'cut'> {
    const { attempt, open } = this.#source;
    const path = url(this.#path, { attempt, follow: open });
    const watched = untilHidden(stop);
    const { signal } = watched;
    try {
      for await (const { event, data, id } of follow(path, { signal, lastEventId: this.#last })) {
        if (event === 'end') {
          this.#finish();
          return 'complete';
        }
        if (event !== 'output') continue;
        this.status = 'live';
        this.error = null;
        this.#add(JSON.parse(data) as LogChunk);
        this.#last = id ?? this.#last;
        await this.#breathe();
        if (signal.aborted) return 'hidden';
      }
      return 'cut';
    } catch (caught) {
      if (signal.aborted) return 'hidden';
      throw caught;
    } finally {
      watched.abort();
    }
  }

  /** The text has no times and no streams, but it needs no stream of events. */
  async #poll(stop: AbortSignal): Promise<void> {
    let seen = this.#last === null ? 0 : -1;
    while (!stop.aborted) {
      try {
        // What events brought is not in characters: read on as events without following.
        if (seen < 0) {
          if (await this.#catchUp(stop)) return;
        } else {
          seen = await this.#text(stop, seen);
        }
        this.error = null;
        if (!this.#source.open) return this.#finish();
        this.status = 'polling';
      } catch (caught) {
        if (stop.aborted) return;
        this.error = asApiError(caught);
      }
      await sleep(POLL_MS, stop);
    }
  }

  async #catchUp(stop: AbortSignal): Promise<boolean> {
    const path = url(this.#path, { attempt: this.#source.attempt });
    for await (const { event, data, id } of follow(path, { signal: stop, lastEventId: this.#last })) {
      if (event === 'end') return !this.#source.open;
      if (event !== 'output') continue;
      this.#add(JSON.parse(data) as LogChunk);
      this.#last = id ?? this.#last;
      await this.#breathe();
    }
    return false;
  }

  async #text(stop: AbortSignal, seen: number): Promise<number> {
    const response = await send('GET', this.#path, {
      query: { attempt: this.#source.attempt },
      headers: { accept: 'text/plain' },
      signal: stop,
    });
    const reader = response.body?.getReader();
    const decoder = new TextDecoder();
    let at = 0;
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      const text = decoder.decode(value, { stream: !done });
      const fresh = text.slice(Math.max(0, seen - at));
      at += text.length;
      if (fresh !== '') this.#add({ place: '0-0', at: '', stream: 'stdout', text: fresh });
      if (done) return Math.max(seen, at);
      await this.#breathe();
    }
  }

  #add(chunk: LogChunk): void {
    this.#changed = Math.min(this.#changed, this.rows.push(chunk));
    if (this.#drawing) return;
    this.#drawing = true;
    setTimeout(() => {
      this.#drawing = false;
      this.version += 1;
    }, 50);
  }

  /** Lets the page draw and answer before the next slice of work. */
  async #breathe(): Promise<void> {
    if (performance.now() < this.#sliceEnd) return;
    await new Promise((resolve) => setTimeout(resolve));
    this.#sliceEnd = performance.now() + SLICE_MS;
  }

  #finish(): void {
    this.status = 'done';
    this.version += 1;
  }

  #fail(error: ApiError): void {
    this.error = error;
    this.#finish();
  }
}

function sleep(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stop.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}
