// Files that the browser saves and reads. A link cannot send the token, so the page asks for a file itself.
import { ApiError, isAbort, send, type Options } from '../api/client';

/** Saves an answer of the server as a file. The browser keeps a long one on disk while it arrives. */
export async function download(
  path: string,
  name: string,
  options: Options = {},
  onprogress?: (bytes: number) => void,
): Promise<void> {
  const answer = await send('GET', path, options);
  let content: Blob;
  let done = 0;
  const counter = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, target) {
      onprogress?.((done += chunk.byteLength));
      target.enqueue(chunk);
    },
  });
  try {
    content = await new Response(answer.body?.pipeThrough(counter)).blob();
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, 'unreachable', 'The file is not complete', 'The node stopped sending the file.');
  }
  save(content, name);
}

export function save(content: Blob, name: string): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The content of a file as base64. */
export async function base64Of(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = '';
  // `fromCharCode` takes a limited number of arguments.
  for (let from = 0; from < bytes.length; from += 8192)
    text += String.fromCharCode(...bytes.subarray(from, from + 8192));
  return btoa(text);
}

export function fromBase64(text: string): Blob {
  return new Blob([Uint8Array.from(atob(text), (char) => char.charCodeAt(0))]);
}

/** `512 B`, `1.2 KiB`, `3.4 MiB`. */
export function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  const value = count / 1024 ** power;
  return `${value < 10 ? Math.round(value * 10) / 10 : Math.round(value)} ${units[power]}`;
}
