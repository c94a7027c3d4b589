import { describe, expect, test } from 'vitest';
import { PLAIN, pieces } from '../../src/screens/run/ansi';
import { LogLayout, ROW_PX } from '../../src/screens/run/log-layout';
import { LogRows, ROW_CHARS_MAX, cellsOf, type LogChunk } from '../../src/screens/run/log-rows';
import { LogSearch, MATCHES_MAX, marked } from '../../src/screens/run/log-search';

function chunk(text: string, fields: Partial<LogChunk> = {}): LogChunk {
  return { place: '7-1', at: '2026-11-17T02:00:00.000Z', stream: 'stdout', text, ...fields };
}

function rowsOf(...chunks: (string | LogChunk)[]): LogRows {
  const rows = new LogRows();
  for (const each of chunks) rows.push(typeof each === 'string' ? chunk(each) : each);
  return rows;
}

describe('rows', () => {
  test('lines end with LF, CRLF or CR, also across chunks', () => {
    expect(rowsOf('a\nb\r\nc\rd').texts).toEqual(['a', 'b', 'c', 'd']);
    expect(rowsOf('a\r', '\nb\n', '\n', 'c').texts).toEqual(['a', 'b', '', 'c']);
  });

  test('a line that arrives in parts is one row', () => {
    const rows = new LogRows();
    rows.push(chunk('one\ntw'));
    expect(rows.push(chunk('o\nthree'))).toBe(1);
    expect(rows.texts).toEqual(['one', 'two', 'three']);
  });

  test('another stream or another attempt begins a new row', () => {
    const rows = rowsOf('out', chunk('err', { stream: 'stderr' }), chunk('again', { place: '8-0' }));
    expect(rows.texts).toEqual(['out', 'err', 'again']);
    expect(rows.beginsAttempt(1)).toBe(false);
    expect(rows.beginsAttempt(2)).toBe(true);
    expect(rows.firstStderr).toBe(1);
  });

  test('a colour lasts over lines, but not over attempts', () => {
    const rows = rowsOf('\u001b[31mred\nstill\n', chunk('next\n', { place: '8-0' }));
    expect(rows.styles.map((style) => style.fg)).toEqual([-1, 1, -1]);
  });

  test('a sequence that is cut by a chunk is put together', () => {
    const rows = rowsOf('a\u001b[3', '1mb\nc');
    expect(rows.plain(0)).toBe('ab');
    expect(rows.styles[1]?.fg).toBe(1);
  });

  test('bytes that are no UTF-8, and characters cut by a chunk', () => {
    const coded = (bytes: number[]) => btoa(String.fromCharCode(...bytes));
    const rows = rowsOf(
      chunk('', { text: undefined, base64: coded([0xe6, 0xb1]) }),
      chunk('', { text: undefined, base64: coded([0x89, 0xff, 0x0a]) }),
      'end',
    );
    expect(rows.texts).toEqual(['汉\ufffd', 'end']);
  });

  test('a very long line continues in the next row, whole characters and sequences', () => {
    const rows = rowsOf('x'.repeat(ROW_CHARS_MAX - 1) + '😀' + 'y'.repeat(ROW_CHARS_MAX));
    expect(rows.count).toBe(3);
    expect(rows.texts.join('')).toHaveLength(2 * ROW_CHARS_MAX + 1);
    expect(rows.texts[1]?.startsWith('😀')).toBe(true);
  });

  test('finds the first error', () => {
    expect(rowsOf('fine\nno terrors here\n\u001b[31mERROR\u001b[0m: no\nfatal\n').firstError).toBe(2);
    expect(rowsOf('fine\n').firstError).toBe(-1);
  });

  test('counts the columns', () => {
    expect(cellsOf('abc')).toBe(3);
    expect(cellsOf('\u001b[31mabc\u001b[0m')).toBe(3);
    expect(cellsOf('汉字')).toBe(4);
    expect(cellsOf('\u202e')).toBe('\\u{202e}'.length);
  });

  test('10 MB are read in chunks and searched in steps', { timeout: 30_000 }, () => {
    const rows = new LogRows();
    const line =
      '\u001b[2m2026-11-17T02:00:00Z\u001b[0m step 12: \u001b[32mok\u001b[0m, nothing to see here\n';
    const text = line.repeat(Math.floor(65_536 / line.length));
    for (let size = 0; size < 10_000_000; size += text.length) rows.push(chunk(text));
    expect(rows.count).toBeGreaterThan(100_000);
    const search = new LogSearch('step');
    let steps = 1;
    for (let clock = 0; !search.step(rows, 0, () => (clock += 1));) steps += 1;
    expect(steps).toBe(Math.ceil(rows.count / 256));
    expect(search.matches).toHaveLength(MATCHES_MAX);
  });
});

describe('layout', () => {
  test('rows of one line', () => {
    const layout = new LogLayout(0);
    expect(layout.top(10)).toBe(10 * ROW_PX);
    expect(layout.window(100 * ROW_PX, 10 * ROW_PX, 1000, 0)).toEqual({ first: 100, last: 111 });
    expect(layout.window(0, 500, 0)).toEqual({ first: 0, last: 0 });
  });

  test('wrapped rows are found by height', () => {
    const layout = new LogLayout(10);
    const cells = [5, 25, 0, 10];
    layout.update(cells);
    expect([0, 1, 2, 3, 4].map((row) => layout.top(row) / ROW_PX)).toEqual([0, 1, 4, 5, 6]);
    expect([0, 1, 2, 3, 4, 5, 99].map((line) => layout.rowAt(line * ROW_PX, 4))).toEqual([
      0, 1, 1, 1, 2, 3, 3,
    ]);
    cells[3] = 21;
    cells.push(1);
    layout.update(cells, 3);
    expect(layout.top(5) / ROW_PX).toBe(9);
  });
});

describe('search', () => {
  test('ignores case and sequences, and goes on as rows arrive', () => {
    const rows = rowsOf('One\ntw\u001b[1mo\nthree\n');
    const search = new LogSearch('O');
    search.step(rows, Infinity);
    expect(search.matches).toEqual([0, 1]);
    rows.push(chunk('two'));
    search.step(rows, Infinity);
    expect(search.matches).toEqual([0, 1, 3]);
    search.rewind(rows.push(chunk('s and more')));
    search.step(rows, Infinity);
    expect(search.matches).toEqual([0, 1, 3]);
    expect(search.from(2)).toBe(2);
    expect(search.from(4)).toBe(-1);
  });

  test('stops at its deadline and can continue', () => {
    const rows = rowsOf('x\n'.repeat(1000));
    const search = new LogSearch('x');
    expect(search.step(rows, 0, () => 1)).toBe(false);
    expect(search.matches).toHaveLength(256);
    expect(search.step(rows, Infinity)).toBe(true);
    expect(search.matches).toHaveLength(1000);
  });

  test('marks what was found, also over a change of colour', () => {
    const parts = pieces('ab\u001b[31mcd\u001b[0mab', PLAIN);
    const made = marked(parts, 'bc');
    expect(made.map((part) => [part.text, part.hit])).toEqual([
      ['a', false],
      ['b', true],
      ['c', true],
      ['d', false],
      ['ab', false],
    ]);
    expect(marked(parts, 'ab').filter((part) => part.hit)).toHaveLength(2);
    expect(marked(parts, '').every((part) => !part.hit)).toBe(true);
  });
});
