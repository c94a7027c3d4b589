// Where the rows of a log are. Without wrapping all rows are equally high; with wrapping a row is as high as the number of
// lines that it needs, summed up as rows arrive.
export const ROW_PX = 18;

export class LogLayout {
  /** The columns of a line; 0 means that rows are not wrapped. */
  readonly columns: number;
  /** The lines before each row. */
  #before: number[] = [0];

  constructor(columns: number) {
    this.columns = columns;
  }

  /** Takes rows from `from` on: they are new, or they changed. */
  update(cells: readonly number[], from = 0): void {
    if (this.columns === 0) return;
    this.#before.length = Math.min(this.#before.length, from + 1);
    for (let row = this.#before.length - 1; row < cells.length; row += 1)
      this.#before.push(this.#before[row]! + linesOf(cells[row]!, this.columns));
  }

  top(row: number): number {
    if (this.columns === 0) return row * ROW_PX;
    return (this.#before[Math.min(row, this.#before.length - 1)] ?? 0) * ROW_PX;
  }

  /** The row at a height. */
  rowAt(px: number, count: number): number {
    const line = Math.max(0, Math.floor(px / ROW_PX));
    if (this.columns === 0) return Math.min(line, Math.max(0, count - 1));
    let [low, high] = [0, Math.max(0, Math.min(count, this.#before.length - 1) - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#before[middle]! <= line) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The rows to draw; `last` is exclusive. */
  window(scrollTop: number, height: number, count: number, spare = 10): { first: number; last: number } {
    const first = Math.max(0, this.rowAt(scrollTop, count) - spare);
    const last = Math.min(count, this.rowAt(scrollTop + height, count) + 1 + spare);
    return { first, last };
  }
}

function linesOf(cells: number, columns: number): number {
  return Math.max(1, Math.ceil(cells / columns));
}
