import { describe, expect, test } from 'vitest';
import { PLAIN, RGB, pieces, strip, styleAfter } from '../../src/screens/run/ansi';
import { lookOf, rgb } from '../../src/screens/run/ansi-look';

const E = '\u001b';
const texts = (line: string) => pieces(line, PLAIN).map((piece) => piece.text);
const fg = (line: string) => pieces(line, PLAIN).map((piece) => piece.style.fg);

describe('colours', () => {
  test('the 16 colours, 256 colours and 24 bits', () => {
    expect(fg(`${E}[31mred${E}[0m plain ${E}[92mgreen`)).toEqual([1, -1, 10]);
    expect(fg(`${E}[38;5;208mx${E}[38:5:17my`)).toEqual([208, 17]);
    expect(fg(`${E}[38;2;1;2;3mx${E}[38:2::4:5:6my`)).toEqual([RGB + 0x010203, RGB + 0x040506]);
  });

  test('several attributes in one sequence, and their ends', () => {
    const [first, second] = pieces(`${E}[1;4;33;44ma${E}[22;24;39;49mb`, PLAIN);
    expect(first?.style).toMatchObject({ bold: true, underline: true, fg: 3, bg: 4 });
    expect(second?.style).toEqual(PLAIN);
  });

  test('a style lasts until it is reset, over the end of a line', () => {
    const style = styleAfter(`${E}[31mred`, PLAIN);
    expect(pieces('still red', style)[0]?.style.fg).toBe(1);
    expect(styleAfter(`x${E}[m`, style)).toBe(PLAIN);
  });

  test('the palette of 256 colours', () => {
    expect(rgb(16)).toEqual([0, 0, 0]);
    expect(rgb(196)).toEqual([255, 0, 0]);
    expect(rgb(255)).toEqual([238, 238, 238]);
  });

  test('looks are classes of a fixed list and values made of numbers', () => {
    const styles = [`${E}[1;2;3;4;7;9;31;42m`, `${E}[38;5;200;48;5;30m`, `${E}[38;2;9;8;7;48;2;1;2;3m`];
    for (const style of styles.map((text) => styleAfter(text, PLAIN))) {
      for (const dark of [true, false]) {
        const look = lookOf(style, dark);
        expect(look.classes).toMatch(/^(ansi-[a-z]+(-\d+)?( |$))*$/);
        expect(look.color ?? '').toMatch(/^(hsl\([\d %]+\))?$/);
        expect(look.background ?? '').toMatch(/^(rgb\([\d /%]+\))?$/);
      }
    }
  });
});

describe('malicious output', () => {
  test('markup is text', () => {
    expect(texts('<img src=x onerror=alert(1)>')).toEqual(['<img src=x onerror=alert(1)>']);
  });

  test('titles, hyperlinks, the clipboard and cursor movements have no effect', () => {
    expect(strip(`a${E}]0;title\u0007b`)).toBe('ab');
    expect(strip(`${E}]8;;https://evil.example${E}\\click${E}]8;;${E}\\`)).toBe('click');
    expect(strip(`${E}]52;c;ZXZpbA==\u0007x`)).toBe('x');
    expect(strip(`${E}[2J${E}[1;1H${E}[?25l${E}(B${E}cx`)).toBe('x');
  });

  test('hidden text stays visible', () => {
    expect(pieces(`${E}[8msecret`, PLAIN)[0]?.style).toEqual(PLAIN);
  });

  test.each([
    `${E}`,
    `${E}[`,
    `${E}[31`,
    `${E}]0;never ends`,
    `${E}[${'1;'.repeat(500)}m`,
    `${E}]${'x'.repeat(9000)}\u0007`,
    `${E}\u0000`,
  ])('a malformed sequence is kept as text (%#)', (text) => {
    expect(strip(`before${text}`)).toBe(`before${text}`);
  });

  test.each(['38;5;256', '38;5;-1', '38;5', '38;2;1;2', '38;2;1;2;999', '38', '999', '38;5;1e1', '31;<b>'])(
    'parameters out of range do nothing: %s',
    (params) => {
      const style = styleAfter(`${E}[${params}m`, PLAIN);
      expect(style.fg === -1 || (style.fg >= 0 && style.fg <= 255)).toBe(true);
      expect(style.bg).toBe(-1);
    },
  );

  // Quadratic time would take minutes; the limit is generous for a busy machine.
  test('a line full of escapes takes linear time', { timeout: 30_000 }, () => {
    for (const bad of [`${E}[`, `${E}]`, `${E}P`, `${E}[31;`, E]) {
      const line = bad.repeat(1_000_000 / bad.length);
      expect(strip(line).length).toBeLessThanOrEqual(line.length);
    }
  });
});
