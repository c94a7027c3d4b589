// Colours of terminal output by an allow-list. Of all escape sequences only SGR (`ESC [ … m`) has an effect; other
// well-formed sequences are left out, and what is malformed stays visible as text. Nothing here makes markup.

/** -1: default. 0 to 255: a colour of the palette. From RGB on: 24 bits. */
export type Colour = number;
export const DEFAULT: Colour = -1;
export const RGB = 0x1000000;

export interface Style {
  readonly fg: Colour;
  readonly bg: Colour;
  readonly bold: boolean;
  readonly dim: boolean;
  readonly italic: boolean;
  readonly underline: boolean;
  readonly strike: boolean;
  readonly inverse: boolean;
}

export const PLAIN: Style = {
  fg: DEFAULT,
  bg: DEFAULT,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
};

export interface Piece {
  text: string;
  style: Style;
}

const ESC = '\u001b';
/** Longer sequences are malformed, so that a scan never runs far ahead. */
const CSI_MAX = 256;
const STRING_MAX = 4096;
const PARAMS_MAX = 32;

interface Sequence {
  /** The first position after it. */
  end: number;
  /** The parameters, if it is SGR. */
  sgr: string | null;
}

/** The sequence at `from`, which is an ESC. Null means that it is malformed. */
function sequenceAt(text: string, from: number): Sequence | null {
  const kind = text[from + 1];
  if (kind === undefined) return null;
  if (kind === '[') return controlAt(text, from + 2);
  if (']PX^_'.includes(kind)) return stringAt(text, from + 2);
  let at = from + 1;
  while (at < from + 4 && text[at]! >= ' ' && text[at]! <= '/') at += 1;
  const last = text[at];
  return last !== undefined && last >= '0' && last <= '~' ? { end: at + 1, sgr: null } : null;
}

function controlAt(text: string, from: number): Sequence | null {
  let at = from;
  const most = Math.min(text.length, from + CSI_MAX);
  while (at < most && text[at]! >= '0' && text[at]! <= '?') at += 1;
  const params = text.slice(from, at);
  const plain = at;
  while (at < most && text[at]! >= ' ' && text[at]! <= '/') at += 1;
  const final = text[at];
  if (at >= most || final === undefined || final < '@' || final > '~') return null;
  const isSgr = final === 'm' && at === plain && /^[\d;:]*$/.test(params);
  return { end: at + 1, sgr: isSgr ? params : null };
}

/** A title, a hyperlink or the like: up to BEL or `ESC \`. */
function stringAt(text: string, from: number): Sequence | null {
  const most = Math.min(text.length, from + STRING_MAX);
  for (let at = from; at < most; at += 1) {
    if (text[at] === '\u0007') return { end: at + 1, sgr: null };
    if (text[at] === ESC) return text[at + 1] === '\\' ? { end: at + 2, sgr: null } : null;
  }
  return null;
}

/** Calls `take` for each part of a line in one style; returns the style after the line. */
function walk(text: string, style: Style, take: ((text: string, style: Style) => void) | null): Style {
  let start = 0;
  let at = text.indexOf(ESC);
  while (at >= 0) {
    const found = sequenceAt(text, at);
    if (found) {
      if (take && at > start) take(text.slice(start, at), style);
      if (found.sgr !== null) style = restyled(style, found.sgr);
      start = found.end;
    }
    at = text.indexOf(ESC, found ? found.end : at + 1);
  }
  if (take && start < text.length) take(text.slice(start), style);
  return style;
}

export function pieces(text: string, style: Style): Piece[] {
  const made: Piece[] = [];
  walk(text, style, (part, its) => {
    const last = made.at(-1);
    if (last && last.style === its) last.text += part;
    else made.push({ text: part, style: its });
  });
  return made;
}

/** The style that the next line begins with. */
export function styleAfter(text: string, style: Style): Style {
  return walk(text, style, null);
}

/** The text without its sequences. */
export function strip(text: string): string {
  if (!text.includes(ESC)) return text;
  let made = '';
  walk(text, PLAIN, (part) => (made += part));
  return made;
}

function restyled(style: Style, params: string): Style {
  const words = params.split(';', PARAMS_MAX);
  let made: Style = style;
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at]!;
    if (word.includes(':')) {
      made = extended(made, word.split(':', 8)).style;
      continue;
    }
    const code = word === '' ? 0 : Number(word);
    if (code === 38 || code === 48) {
      const { style: next, used } = extended(made, words.slice(at, at + 5));
      made = next;
      at += used - 1;
    } else {
      made = simple(made, code);
    }
  }
  return made;
}

/** `38;5;n` and `38;2;r;g;b`, also with colons. */
function extended(style: Style, words: string[]): { style: Style; used: number } {
  const [what, kind] = [Number(words[0]), words[1]];
  if (what !== 38 && what !== 48) return { style, used: 1 };
  const set = (colour: Colour) => (what === 38 ? { ...style, fg: colour } : { ...style, bg: colour });
  if (kind === '5') {
    const index = Number(words[2] ?? NaN);
    return { style: isByte(index) ? set(index) : style, used: 3 };
  }
  if (kind === '2') {
    // With colons there may be a colour space before the three values.
    const [r, g, b] = words.slice(words.length > 5 ? 3 : 2).map(Number);
    const valid = [r, g, b].every((value) => value !== undefined && isByte(value));
    return { style: valid ? set(RGB + (r! << 16) + (g! << 8) + b!) : style, used: 5 };
  }
  return { style, used: 2 };
}

function isByte(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= 255;
}

// Blinking (5, 6), hidden text (8) and fonts have no effect: text stays still and can be read.
function simple(style: Style, code: number): Style {
  if (code === 0) return PLAIN;
  if (code >= 30 && code <= 37) return { ...style, fg: code - 30 };
  if (code >= 40 && code <= 47) return { ...style, bg: code - 40 };
  if (code >= 90 && code <= 97) return { ...style, fg: code - 82 };
  if (code >= 100 && code <= 107) return { ...style, bg: code - 92 };
  switch (code) {
    case 1:
      return { ...style, bold: true };
    case 2:
      return { ...style, dim: true };
    case 3:
      return { ...style, italic: true };
    case 4:
      return { ...style, underline: true };
    case 7:
      return { ...style, inverse: true };
    case 9:
      return { ...style, strike: true };
    case 22:
      return { ...style, bold: false, dim: false };
    case 23:
      return { ...style, italic: false };
    case 24:
      return { ...style, underline: false };
    case 27:
      return { ...style, inverse: false };
    case 29:
      return { ...style, strike: false };
    case 39:
      return { ...style, fg: DEFAULT };
    case 49:
      return { ...style, bg: DEFAULT };
    default:
      return style;
  }
}
