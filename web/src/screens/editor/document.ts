// The document of the editor: a job file as YAML. The form reads values from it and writes single fields into it,
// so that comments and the order of the author stay.
import { LineCounter, isMap, isScalar, isSeq, parseDocument, stringify, type Document } from 'yaml';

export type Path = (string | number)[];

export interface Mark {
  from: number;
  to: number;
  line: number;
  message: string;
  kind: 'error' | 'warning';
}

export interface Parsed {
  text: string;
  /** The file as plain values; null if the text cannot be read. */
  value: Record<string, unknown> | null;
  errors: Mark[];
  doc: Document;
}

/** Lists as their author usually writes them: `[a, b]`. */
const STYLE = { flowCollectionPadding: false, lineWidth: 0 };

export function parse(text: string): Parsed {
  const lines = new LineCounter();
  const doc = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const errors = doc.errors.map((error): Mark => {
    const [from, to] = error.pos;
    const line = lines.linePos(Math.min(from, text.length)).line;
    return { from, to, line, message: error.message, kind: 'error' };
  });
  return { text, errors, doc, value: errors.length > 0 ? null : valueOf(doc) };
}

/** The file as plain values: an empty text is an empty file, a list or a word is none. */
function valueOf(doc: Document): Parsed['value'] {
  const value: unknown = doc.toJS({ maxAliasCount: 100 });
  if (value === null || value === undefined) return {};
  return typeof value === 'object' && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
}

/** `task.process.command[1]` as a path. */
export function toPath(field: string): Path {
  return field
    .split(/[.[\]]+/)
    .filter(Boolean)
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

/** Where a field is; if it is missing, where its nearest parent is. */
export function place(parsed: Parsed, field: string): { from: number; to: number } {
  let node: unknown = parsed.doc.contents;
  let found: [number, number] = [0, Math.max(0, parsed.text.indexOf('\n'))];
  for (const part of toPath(field)) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(part));
      if (!pair) break;
      const [key, value] = [pair.key as { range?: number[] }, pair.value as { range?: number[] } | null];
      found = [key.range?.[0] ?? found[0], value?.range?.[1] ?? key.range?.[1] ?? found[1]];
      node = pair.value;
    } else if (isSeq(node) && typeof part === 'number') {
      const item = node.items[part] as { range?: number[] } | undefined;
      if (!item?.range) break;
      found = [item.range[0]!, item.range[1]!];
      node = item;
    } else break;
  }
  return { from: found[0], to: Math.max(found[0], found[1]) };
}

export function lineOf(text: string, at: number): number {
  return text.slice(0, at).split('\n').length;
}

/** The text with another value at a path; `undefined` takes the field away, and parents that are empty then. */
export function withField(text: string, path: Path, value: unknown): string {
  const { doc } = parse(text);
  if (value !== undefined) {
    if (!doc.contents) doc.contents = doc.createNode({}) as never;
    const node = doc.getIn(path, true);
    // A changed text keeps its quotes and its comment.
    if (isScalar(node) && typeof value !== 'object') node.value = value;
    else doc.setIn(path, doc.createNode(value));
    return doc.toString(STYLE);
  }
  doc.deleteIn(path);
  for (let up = path.slice(0, -1); up.length > 0; up = up.slice(0, -1)) {
    const parent = doc.getIn(up, true);
    if ((isMap(parent) || isSeq(parent)) && parent.items.length === 0) doc.deleteIn(up);
    else break;
  }
  return doc.contents && (!isMap(doc.contents) || doc.contents.items.length > 0) ? doc.toString(STYLE) : '';
}

const SERVER_FIELDS = [
  'id',
  'revision',
  'state',
  'pause',
  'created_at',
  'updated_at',
  'next_due_at',
  'fired_through',
  'last',
];

/** What the server spells out although it is the default. */
const DEFAULTS: Record<string, unknown> = {
  namespace: 'default',
  params: {},
  labels: {},
  search: [],
  overlap: 'skip',
  priority: 5,
  at_most_once: false,
  dead_letter: true,
  retry: { attempts: 1, delay: '10s', backoff: 'exponential', max_delay: '10m', jitter: '0%' },
  misfire: { policy: 'once', window: '1h', grace: '10s' },
  keep: { runs: 1000, days: 30 },
  route: { strategy: 'least_loaded' },
};
const ORDER = ['name', 'namespace', 'description', 'labels', 'search', 'schedule', 'task', 'params'];

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

function without(value: unknown, defaults: unknown): unknown {
  if (value === null || value === undefined || same(value, defaults)) return undefined;
  if (typeof value !== 'object' || Array.isArray(value) || typeof defaults !== 'object') return value;
  const kept = Object.entries(value)
    .map(([key, each]) => [key, without(each, (defaults as Record<string, unknown>)[key])] as const)
    .filter(([, each]) => each !== undefined);
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

/** A job as its author would have written it: without fields of the server, nulls and defaults. */
export function tidy(job: object): Record<string, unknown> {
  const entries = Object.entries(job).filter(([key]) => !SERVER_FIELDS.includes(key));
  const place = (key: string) => (ORDER.includes(key) ? ORDER.indexOf(key) : ORDER.length);
  return Object.fromEntries(
    entries
      .map(
        ([key, value]) =>
          [key, key in DEFAULTS ? without(value, DEFAULTS[key]) : (value ?? undefined)] as const,
      )
      .filter(([, value]) => value !== undefined)
      .sort(([a], [b]) => place(a) - place(b)),
  );
}

/** A job as a job file. */
export function write(job: object): string {
  return stringify(tidy(job), STYLE);
}
