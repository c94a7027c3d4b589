// Where the boxes of a graph are drawn. Columns are levels; in a column, boxes are ordered by the mean place of what they
// are connected to, and stand as near to it as they can. An edge over several columns keeps a lane free in each.
import { hasTally, type Box, type Group } from './fold';

export const WIDTH = 208;
export const HEIGHT = 52;
/** A line more: the items of a map, or the steps of a folded sub-workflow. */
const TALLY = 21;
/** A folded level: a title and a line for each of the five states. */
export const LEVEL_HEIGHT = 136;
/** The title of an unfolded sub-workflow. */
export const TITLE = 54;
const PADDING = 12;
const ROW_GAP = 12;
const COLUMN_GAP = 48;
const LANE = 6;
/** The space that sets `finally` apart, and the height of its name. */
const FINALLY_GAP = 24;
const FINALLY_NAME = 24;
/** More lanes than this are not worth their time: long edges then pass behind boxes. */
const LANES_MAX = 4_000;

export interface Placed {
  box: Box;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Line {
  from: string;
  to: string;
  points: [x: number, y: number][];
}

export interface Drawing {
  placed: Placed[];
  lines: Line[];
  /** Before the columns of `finally`, one for each workflow that has some. */
  dividers: { x: number; y: number; height: number }[];
  width: number;
  height: number;
}

/** A box or a lane while it is being placed. */
interface Item {
  id: string;
  box: Box | null;
  width: number;
  height: number;
  inner: Drawing | null;
  needs: Item[];
  followers: Item[];
  x: number;
  /** Its middle. */
  y: number;
}

export function layout(group: Group): Drawing {
  const columns = group.columns.map((boxes) => boxes.map(itemOf));
  const routes = connect(columns, group);
  for (const column of columns) order(column, (item) => item.needs);
  for (const column of columns.toReversed()) order(column, (item) => item.followers);
  for (const column of columns) stack(column);
  return draw(columns, routes);
}

function itemOf(box: Box): Item {
  const inner = box.inner && layout(box.inner);
  const width = inner ? Math.max(WIDTH, inner.width + 2 * PADDING) : WIDTH;
  const height = inner ? TITLE + inner.height + PADDING : heightOf(box);
  return { id: box.id, box, width, height, inner, needs: [], followers: [], x: 0, y: 0 };
}

function heightOf(box: Box): number {
  if (box.step) return hasTally(box) ? HEIGHT + TALLY : HEIGHT;
  // Without states there is nothing to count.
  return box.folded[0]?.state ? LEVEL_HEIGHT : HEIGHT;
}

/** The items along each edge: its source, its lanes, its target. Adds the lanes to the columns. */
function connect(columns: Item[][], { edges }: Group): Item[][] {
  const at = new Map<string, [item: Item, column: number]>();
  for (const [index, column] of columns.entries()) for (const item of column) at.set(item.id, [item, index]);
  const spans = edges.map(({ from, to }) =>
    Math.max(0, (at.get(to)?.[1] ?? 0) - (at.get(from)?.[1] ?? 0) - 1),
  );
  const hasLanes = spans.reduce((sum, span) => sum + span, 0) <= LANES_MAX;
  const lanes = new Map<string, Item>();
  return edges.flatMap(({ from, to }) => {
    const [source, target] = [at.get(from), at.get(to)];
    if (!source || !target) return [];
    const route = [source[0]];
    // All long edges of a box share its lanes.
    for (let index = source[1] + 1; hasLanes && index < target[1]; index += 1) {
      const id = `${from}\n${index}`;
      let lane = lanes.get(id);
      if (!lane) {
        lane = { id, box: null, width: 0, height: LANE, inner: null, needs: [], followers: [], x: 0, y: 0 };
        lanes.set(id, lane);
        columns[index]?.push(lane);
      }
      route.push(lane);
    }
    route.push(target[0]);
    for (const [index, item] of route.slice(1).entries()) link(route[index]!, item);
    return [route];
  });
}

function link(before: Item, after: Item): void {
  if (after.needs.includes(before)) return;
  after.needs.push(before);
  before.followers.push(after);
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Sorts a column by the mean place of the neighbours. Until boxes are stacked, `y` is their place in the column. */
function order(column: Item[], neighbours: (item: Item) => Item[]): void {
  const middle = (column.length - 1) / 2;
  const wanted = new Map<Item, number>();
  for (const [index, item] of column.entries()) {
    const near = neighbours(item);
    wanted.set(item, near.length > 0 ? mean(near.map((each) => each.y)) : index - middle);
  }
  column.sort((a, b) => wanted.get(a)! - wanted.get(b)!);
  for (const [index, item] of column.entries()) item.y = index - middle;
}

/** Puts a column in its order from top to bottom, each box as near to the mean of its needs as the others allow. */
function stack(column: Item[]): void {
  const whole = column.reduce((sum, item) => sum + item.height + ROW_GAP, -ROW_GAP);
  let [bottom, inTurn, pushed] = [-Infinity, -whole / 2, 0];
  for (const item of column) {
    const half = item.height / 2;
    const wanted = item.needs.length > 0 ? mean(item.needs.map((each) => each.y)) : inTurn + half;
    item.y = Math.max(wanted, bottom + half);
    pushed += item.y - wanted;
    bottom = item.y + half + ROW_GAP;
    inTurn += item.height + ROW_GAP;
  }
  // What was pushed down is shared by all.
  for (const item of column) item.y -= pushed / column.length;
}

function draw(columns: Item[][], routes: Item[][]): Drawing {
  const made: Drawing = { placed: [], lines: [], dividers: [], width: 0, height: 0 };
  const all = columns.flat();
  const firstFinally = columns.findIndex((column) => column.some((item) => item.box?.finally));
  const name = firstFinally > 0 ? FINALLY_NAME : 0;
  const top = Math.min(...all.map((item) => item.y - item.height / 2)) - name;
  const bottom = Math.max(...all.map((item) => item.y + item.height / 2));
  if (all.length === 0) return made;
  made.height = bottom - top;
  let x = 0;
  for (const [index, column] of columns.entries()) {
    if (index > 0) x += COLUMN_GAP;
    if (index > 0 && index === firstFinally) {
      x += FINALLY_GAP;
      made.dividers.push({ x: x - (COLUMN_GAP + FINALLY_GAP) / 2, y: 0, height: made.height });
    }
    const width = Math.max(...column.map((item) => item.width), WIDTH);
    for (const item of column) {
      item.x = x;
      item.y -= top;
      // A lane is as wide as its column.
      if (!item.box) item.width = width;
      else place(made, item);
    }
    x += width;
  }
  made.width = x;
  made.lines.push(...routes.map(line));
  return made;
}

/** Adds a box and what is drawn inside of it. */
function place(made: Drawing, { box, inner, x, y, width, height }: Item): void {
  if (!box) return;
  const top = y - height / 2;
  made.placed.push({ box, x, y: top, width, height });
  if (!inner) return;
  const [dx, dy] = [x + PADDING, top + TITLE];
  const move = <T extends { x: number; y: number }>(each: T): T => ({
    ...each,
    x: each.x + dx,
    y: each.y + dy,
  });
  made.placed.push(...inner.placed.map(move));
  made.dividers.push(...inner.dividers.map(move));
  for (const { points, ...rest } of inner.lines)
    made.lines.push({ ...rest, points: points.map(([px, py]) => [px + dx, py + dy]) });
}

function line(route: Item[]): Line {
  const points: [number, number][] = [];
  for (const [index, { x, y, width }] of route.entries()) {
    if (index > 0) points.push([x, y]);
    if (index < route.length - 1) points.push([x + width, y]);
  }
  return { from: route[0]?.id ?? '', to: route.at(-1)?.id ?? '', points };
}

/** The lines as one SVG path: a curve between columns, straight through a lane. */
export function toPath(lines: readonly Line[]): string {
  const round = (value: number) => Math.round(value * 2) / 2;
  return lines
    .map(({ points }) =>
      points
        .map(([x, y], index) => {
          const before = points[index - 1];
          if (!before) return `M${round(x)} ${round(y)}`;
          if (index % 2 === 0) return `H${round(x)}`;
          const middle = round((before[0] + x) / 2);
          return `C${middle} ${round(before[1])} ${middle} ${round(y)} ${round(x)} ${round(y)}`;
        })
        .join(''),
    )
    .join('');
}

/** A part of the drawing, such as what is in view. */
export interface Area {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** Whether a part of the box is in the area. */
export function isIn({ x, y, width, height }: Placed, area: Area): boolean {
  return x < area.right && x + width > area.left && y < area.bottom && y + height > area.top;
}

export type Arrow = 'ArrowLeft' | 'ArrowRight' | 'ArrowUp' | 'ArrowDown';

/** The box that an arrow key goes to: the nearest column or row in that direction, there the nearest box. */
export function neighbour(placed: readonly Placed[], id: string, arrow: Arrow): string | null {
  const from = placed.find((each) => each.box.id === id);
  if (!from) return placed[0]?.box.id ?? null;
  const sideways = arrow === 'ArrowLeft' || arrow === 'ArrowRight';
  const ahead = arrow === 'ArrowRight' || arrow === 'ArrowDown' ? 1 : -1;
  let best: { id: string; gap: number; off: number } | null = null;
  for (const each of placed) {
    const [dx, dy] = [each.x - from.x, titleOf(each) - titleOf(from)];
    const [gap, off] = sideways ? [dx * ahead, Math.abs(dy)] : [dy * ahead, Math.abs(dx)];
    // Up and down stay in the column; in an unfolded sub-workflow, inner columns are near enough.
    if (gap <= 0 || (!sideways && off >= WIDTH)) continue;
    if (!best || gap < best.gap || (gap === best.gap && off < best.off)) best = { id: each.box.id, gap, off };
  }
  return best?.id ?? null;
}

function titleOf({ box, y, height }: Placed): number {
  return box.inner ? y + TITLE / 2 : y + height / 2;
}
