// Server-sent events over `fetch`: EventSource cannot send the Authorization header.
import { send, type Options } from './client';

export interface ServerEvent {
  event: string;
  data: string;
  id: string | null;
}

/** Opens a stream and yields its events until it ends or `signal` aborts it. `heard` is called for every chunk. */
export async function* follow(
  path: string,
  options: Options & { lastEventId?: string | null; heard?: () => void } = {},
): AsyncGenerator<ServerEvent> {
  const headers: Record<string, string> = { ...options.headers, accept: 'text/event-stream' };
  if (options.lastEventId) headers['last-event-id'] = options.lastEventId;
  const response = await send('GET', path, { ...options, headers });
  const reader = response.body?.getReader();
  if (!reader) return;
  const decoder = new TextDecoder();
  const parser = new Parser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      options.heard?.();
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Cuts text into events; a chunk may end anywhere. */
export class Parser {
  #rest = '';
  #event = '';
  #data: string[] = [];
  #id: string | null = null;

  push(text: string): ServerEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    return lines.flatMap((line) => this.#line(line) ?? []);
  }

  #line(line: string): ServerEvent | null {
    if (line === '') return this.#finish();
    const colon = line.indexOf(':');
    if (colon === 0) return null; // a comment, such as ": ping"
    const [field, value] =
      colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')];
    if (field === 'event') this.#event = value;
    else if (field === 'data') this.#data.push(value);
    else if (field === 'id') this.#id = value;
    return null;
  }

  #finish(): ServerEvent | null {
    const made =
      this.#data.length > 0
        ? { event: this.#event || 'message', data: this.#data.join('\n'), id: this.#id }
        : null;
    this.#event = '';
    this.#data = [];
    return made;
  }
}
