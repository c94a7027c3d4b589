// Text of users (names, labels, errors, output) is shown as text: never as markup, and without invisible
// characters that could reorder the words around it. Put it into `<bdi>` or an element of class `user-text`.

// Bidirectional controls, zero-width characters and other controls except tab and line feed.
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Makes invisible characters visible as `\u{202e}`, so that a name cannot look like another one. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (char) => `\\u{${char.charCodeAt(0).toString(16)}}`);
}

/** Cuts a long text in the middle; both ends of a name usually matter. */
export function shorten(text: string, most = 80): string {
  if (text.length <= most) return text;
  const side = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - side)}…${text.slice(text.length - side)}`;
}

/** A message of the server for readers: quotes instead of backticks. */
export function quoted(text: string): string {
  return text.replace(/`([^`]*)`/g, '“$1”');
}

/** A message of the server as a sentence: a capital letter first, a full stop last. */
export function sentence(text: string): string {
  const words = quoted(text);
  const first = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

/** JSON is pretty-printed; any other text is returned unchanged. */
export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Quotes a word for a POSIX shell, if it needs quotes. */
export function shellQuote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
