// The request that submits a run, and the command lines that do the same. What is not in a field of the form is in its
// text, which has the fields of the request: `task`, `timeout`, `retry` and so on.
import { commands, option, type Lines } from '../lib/commands';
import { fromLocal } from '../lib/time';
import { jsonObject } from '../screens/job/actions';

export type When = 'now' | 'delay' | 'at';

export interface Typed {
  params: string;
  when: When;
  delay: string;
  /** The text of an input of the type `datetime-local`. */
  at: string;
  key: string;
  priority: string;
}

type Body = Record<string, unknown>;

/** The fields of the request that the form gives; an empty one is left to the text. */
export function formBody(typed: Typed): Body {
  const params = jsonObject(typed.params);
  const due = typed.when === 'at' ? fromLocal(typed.at) : null;
  const delay = typed.when === 'delay' ? typed.delay.trim() : '';
  const priority = typed.priority.trim();
  return {
    ...(params && Object.keys(params).length > 0 ? { params } : {}),
    ...(due ? { due_at: due } : {}),
    ...(delay ? { delay } : {}),
    ...(typed.key ? { key: typed.key } : {}),
    ...(priority ? { priority: /^\d+$/.test(priority) ? Number(priority) : priority } : {}),
  };
}

/** A delay or a time was chosen and is typed. */
export function isDueKnown({ when, delay, at }: Pick<Typed, 'when' | 'delay' | 'at'>): boolean {
  return when === 'now' || (when === 'delay' ? delay.trim() : at) !== '';
}

export function submitCommands(body: Body, path: string): Lines {
  const words = submitWords(body);
  const made = commands(words ?? [], 'POST', path, body);
  return words ? made : { cli: null, curl: made.curl };
}

/** The words of `punctual run submit`. Null: it has no options for such a run. */
export function submitWords(body: Body): string[] | null {
  const { task, ...rest } = body;
  const its = taskWords(task);
  const options = Object.entries(rest).map(([field, value]) => optionOf(field, value));
  if (!its || options.includes(null)) return null;
  return ['run', 'submit', ...its.options, ...options.flatMap((each) => each ?? []), ...its.last];
}

function taskWords(task: unknown): { options: string[]; last: string[] } | null {
  if (!isMap(task) || Object.keys(task).length !== 1) return null;
  const { shell, noop, process } = task;
  if (typeof shell === 'string') return { options: option('shell', shell), last: [] };
  if (isMap(noop)) return { options: ['--noop'], last: [] };
  if (!isMap(process) || Object.keys(process).join() !== 'command') return null;
  const { command } = process;
  return isTexts(command) ? { options: [], last: ['--', ...command] } : null;
}

function optionOf(field: string, value: unknown): string[] | null {
  if (value === null || value === undefined) return [];
  switch (field) {
    case 'params':
      return ['--params', JSON.stringify(value)];
    case 'due_at':
      return option('at', String(value));
    case 'delay':
    case 'key':
    case 'priority':
    case 'timeout':
      return option(field, String(value));
    case 'at_most_once':
      return value === true ? ['--at-most-once'] : [];
    case 'retry':
      return isMap(value) && Object.keys(value).join() === 'attempts'
        ? option('attempts', String(value.attempts))
        : null;
    case 'route':
      return routeWords(value);
    default:
      return null;
  }
}

function routeWords(route: unknown): string[] | null {
  if (!isMap(route)) return null;
  const { strategy, selector, ...rest } = route;
  if (Object.keys(rest).length > 0 || (selector !== undefined && !isMap(selector))) return null;
  const labels = Object.entries(selector ?? {}).flatMap(([name, value]) =>
    option('selector', `${name}=${String(value)}`),
  );
  return [...(strategy === undefined ? [] : option('route', String(strategy))), ...labels];
}

function isMap(value: unknown): value is Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string');
}
