// Differences of two texts by line, and of two values as texts.
export interface DiffLine {
  kind: 'same' | 'removed' | 'added';
  text: string;
}

const CELLS_MAX = 4_000_000;

/** The lines of both texts; removed ones come before the added ones that replace them. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [old, new_] = [before.split('\n'), after.split('\n')];
  let head = 0;
  while (head < old.length && head < new_.length && old[head] === new_[head]) head += 1;
  let tail = 0;
  while (
    tail < old.length - head &&
    tail < new_.length - head &&
    old[old.length - 1 - tail] === new_[new_.length - 1 - tail]
  )
    tail += 1;
  const line = (kind: DiffLine['kind']) => (text: string) => ({ kind, text });
  return [
    ...old.slice(0, head).map(line('same')),
    ...middle(old.slice(head, old.length - tail), new_.slice(head, new_.length - tail)),
    ...old.slice(old.length - tail).map(line('same')),
  ];
}

function middle(old: string[], new_: string[]): DiffLine[] {
  const removed = () => old.map((text): DiffLine => ({ kind: 'removed', text }));
  const added = () => new_.map((text): DiffLine => ({ kind: 'added', text }));
  // Texts this different are not worth the memory.
  if (old.length * new_.length > CELLS_MAX) return [...removed(), ...added()];
  const width = new_.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = new_.length - 1; j >= 0; j -= 1) {
      common[i * width + j] =
        old[i] === new_[j]
          ? common[(i + 1) * width + j + 1]! + 1
          : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
    }
  }
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < new_.length) {
    if (i < old.length && j < new_.length && old[i] === new_[j]) {
      lines.push({ kind: 'same', text: old[i]! });
      i += 1;
      j += 1;
    } else if (
      j >= new_.length ||
      (i < old.length && common[(i + 1) * width + j]! >= common[i * width + j + 1]!)
    ) {
      lines.push({ kind: 'removed', text: old[i]! });
      i += 1;
    } else {
      lines.push({ kind: 'added', text: new_[j]! });
      j += 1;
    }
  }
  return lines;
}

/** A value of a job file as text: texts as they are, everything else as JSON. */
export function valueText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

/** One change of a job file as lines; `undefined` means that the field is missing on that side. */
export function diffValues(before: unknown, after: unknown): DiffLine[] {
  const lines = (kind: DiffLine['kind'], value: unknown) =>
    valueText(value)
      .split('\n')
      .map((text): DiffLine => ({ kind, text }));
  if (before === undefined || before === null) return after === undefined ? [] : lines('added', after);
  if (after === undefined || after === null) return lines('removed', before);
  return diffLines(valueText(before), valueText(after));
}
