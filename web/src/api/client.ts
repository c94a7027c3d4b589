// Requests to the REST API. Every failure is an `ApiError`, whether the server or the network caused it.
import type { Query } from '../lib/paths';
import { url } from './addresses';
import { takeEarly } from './early';
import { session } from './session.svelte';

export { inNs, url } from './addresses';

export class ApiError extends Error {
  constructor(
    /** 0 means that no answer arrived. */
    readonly status: number,
    /** The problem's code, or `unreachable`. */
    readonly code: string,
    readonly title: string,
    message: string,
    readonly field: string | null = null,
  ) {
    super(message);
  }
}

export interface Options {
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Sends a request and returns the answer if it is a success. */
export async function send(method: string, path: string, options: Options = {}): Promise<Response> {
  const token = session.token;
  const headers = new Headers(options.headers);
  if (token) headers.set('authorization', `Bearer ${token}`);
  if (options.body !== undefined && !headers.has('content-type'))
    headers.set('content-type', 'application/json');
  const body = typeof options.body === 'string' ? options.body : JSON.stringify(options.body);
  let response: Response;
  try {
    response = await fetch(url(path, options.query), {
      method,
      headers,
      body,
      signal: options.signal ?? null,
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, 'unreachable', 'No answer', 'The node did not answer.');
  }
  if (response.ok) return response;
  if (response.status === 401) session.unauthenticated(token);
  throw await problem(response);
}

async function problem(response: Response): Promise<ApiError> {
  try {
    const { code, title, message, field } = await response.json();
    return new ApiError(response.status, code, title, message, field ?? null);
  } catch {
    const title = `HTTP ${response.status}`;
    return new ApiError(response.status, `http_${response.status}`, title, response.statusText || title);
  }
}

async function json<T>(method: string, path: string, options?: Options): Promise<T> {
  const response = await send(method, path, options);
  return (response.status === 204 ? null : await response.json()) as T;
}

async function get<T>(path: string, query?: Query, options?: Options): Promise<T> {
  const early = await takeEarly(url(path, query), session.token);
  options?.signal?.throwIfAborted();
  return early === undefined ? json<T>('GET', path, { ...options, query }) : (early as T);
}

export const api = {
  get,
  post: <T>(path: string, body?: unknown, options?: Options) => json<T>('POST', path, { ...options, body }),
  put: <T>(path: string, body: unknown, options?: Options) => json<T>('PUT', path, { ...options, body }),
  patch: <T>(path: string, body: unknown, options?: Options) => json<T>('PATCH', path, { ...options, body }),
  delete: <T>(path: string, options?: Options) => json<T>('DELETE', path, options),
};

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** Any thrown value as an `ApiError`, for `ErrorBox`. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(
    0,
    'console_error',
    'Error in the console',
    error instanceof Error ? error.message : String(error),
  );
}
