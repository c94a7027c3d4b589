// How a terminal style looks on the page: classes for the 16 named colours (`styles/ansi.css`), values for the others.
// Values are built from numbers only and are set as CSS properties, never as markup.
import { DEFAULT, RGB, type Colour, type Style } from './ansi';

export interface Look {
  classes: string;
  /** Null: the class decides. */
  color: string | null;
  background: string | null;
}

const STEPS = [0, 95, 135, 175, 215, 255];

/** Red, green and blue of a colour from 16 on. */
export function rgb(colour: Colour): [number, number, number] {
  if (colour >= RGB) return [(colour >> 16) & 255, (colour >> 8) & 255, colour & 255];
  if (colour >= 232) {
    const grey = 8 + (colour - 232) * 10;
    return [grey, grey, grey];
  }
  const cube = colour - 16;
  return [STEPS[Math.floor(cube / 36)]!, STEPS[Math.floor(cube / 6) % 6]!, STEPS[cube % 6]!];
}

/** Hue and saturation stay; the lightness is moved until the text can be read on the theme's background. */
function readable([r, g, b]: [number, number, number], dark: boolean): string {
  const [max, min] = [Math.max(r, g, b) / 255, Math.min(r, g, b) / 255];
  const light = (max + min) / 2;
  const range = max - min;
  const saturation = range === 0 ? 0 : range / (1 - Math.abs(2 * light - 1));
  const hue = range === 0 ? 0 : hueOf(r / 255, g / 255, b / 255, max, range);
  const moved = dark ? Math.max(light, 0.68) : Math.min(light, 0.34);
  return `hsl(${Math.round(hue)} ${Math.round(saturation * 100)}% ${Math.round(moved * 100)}%)`;
}

function hueOf(r: number, g: number, b: number, max: number, range: number): number {
  if (max === r) return (60 * ((g - b) / range) + 360) % 360;
  return max === g ? 60 * ((b - r) / range) + 120 : 60 * ((r - g) / range) + 240;
}

export function lookOf(style: Style, dark: boolean): Look {
  const classes: string[] = [];
  if (style.bold) classes.push('ansi-bold');
  if (style.dim) classes.push('ansi-dim');
  if (style.italic) classes.push('ansi-italic');
  if (style.underline) classes.push('ansi-underline');
  if (style.strike) classes.push('ansi-strike');
  if (style.inverse) classes.push('ansi-inverse');
  let [color, background]: [string | null, string | null] = [null, null];
  if (style.fg >= 16) color = readable(rgb(style.fg), dark);
  else if (style.fg !== DEFAULT) classes.push(`ansi-fg-${style.fg}`);
  // A tint, so that text of any colour can be read on it.
  if (style.bg >= 16) background = `rgb(${rgb(style.bg).join(' ')} / 28%)`;
  else if (style.bg !== DEFAULT) classes.push(`ansi-bg-${style.bg}`);
  return { classes: classes.join(' '), color, background };
}
