// Which boxes are drawn: a step each, but a sub-workflow is one box until it is unfolded, and a large graph has one box
// for each level until that is unfolded.
import type { Graph, GraphEdge, GraphNode } from '../../api/types';

/** A graph with more steps is folded by level. */
export const STEPS_MAX = 500;
/** A long chain has more levels than this: then one box stands for several levels. */
const LEVEL_BOXES_MAX = 100;

export interface Box {
  /** The step, or the id of folded levels. */
  id: string;
  /** Null: folded levels. */
  step: GraphNode | null;
  /** The first and the last level in it. */
  levels: [from: number, to: number];
  finally: boolean;
  /** The steps that are folded into it: those of its levels, or of its sub-workflow. */
  folded: GraphNode[];
  /** The steps of an unfolded sub-workflow. */
  inner: Group | null;
}

/** The boxes of one workflow, in columns from left to right. */
export interface Group {
  columns: Box[][];
  edges: GraphEdge[];
}

/** The box is a sub-workflow: its steps can be shown and hidden. */
export function folds(box: Box): boolean {
  return box.inner !== null || (box.step !== null && box.folded.length > 0);
}

/** The box of a run's graph has a line for its items, or for the steps that are folded into it. */
export function hasTally({ step, folded, inner }: Box): boolean {
  return step?.state !== undefined && !inner && (step.map !== undefined || folded.length > 0);
}

interface Context {
  open: ReadonlySet<string>;
  /** The steps of each sub-workflow; those of the outermost workflow are at ''. */
  children: Map<string, GraphNode[]>;
  edges: Map<string, GraphEdge[]>;
}

/** The boxes of a graph; `open` has the ids of the boxes that are unfolded. */
export function fold(graph: Graph, open: ReadonlySet<string>): Group {
  const cx: Context = { open, children: new Map(), edges: new Map() };
  const parents = new Map<string, string>();
  for (const node of graph.nodes) {
    parents.set(node.step, node.parent ?? '');
    add(cx.children, node.parent ?? '', node);
  }
  for (const edge of graph.edges) add(cx.edges, parents.get(edge.to) ?? '', edge);
  return group('', cx);
}

function add<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}

function group(parent: string, cx: Context): Group {
  const steps = cx.children.get(parent) ?? [];
  const isFolded = steps.length > STEPS_MAX;
  const columns: Box[][] = [];
  for (const levels of bundles(levelsOf(steps), isFolded)) {
    const box = isFolded ? levelBox(parent, levels) : null;
    if (box && !cx.open.has(box.id)) columns.push([box]);
    else columns.push(...levels.map((level) => level.map((step) => stepBox(step, cx))));
  }
  return { columns, edges: edgesOf(columns, cx.edges.get(parent) ?? []) };
}

/** The steps by level; those of `finally` come last. */
function levelsOf(steps: GraphNode[]): GraphNode[][] {
  const levels = new Map<string, GraphNode[]>();
  for (const step of steps) add(levels, `${step.finally} ${step.level}`, step);
  const rank = ([step]: GraphNode[]) => (step?.finally ? 1e6 : 0) + (step?.level ?? 0);
  return [...levels.values()].sort((a, b) => rank(a) - rank(b));
}

/** Each level alone, or neighbours together if a folded graph has too many levels. */
function bundles(levels: GraphNode[][], isFolded: boolean): GraphNode[][][] {
  const size = isFolded ? Math.ceil(levels.length / LEVEL_BOXES_MAX) : 1;
  const made: GraphNode[][][] = [];
  for (const level of levels) {
    const last = made.at(-1);
    const isSame = last?.[0]?.[0]?.finally === level[0]?.finally;
    if (last && isSame && last.length < size) last.push(level);
    else made.push([level]);
  }
  return made;
}

function levelBox(parent: string, levels: GraphNode[][]): Box {
  const folded = levels.flat();
  const [from, to] = [levels[0]?.[0]?.level ?? 0, levels.at(-1)?.[0]?.level ?? 0];
  const isFinally = folded[0]?.finally ?? false;
  const id = `${parent}#${isFinally ? 'finally' : 'level'}-${from}`;
  return { id, step: null, levels: [from, to], finally: isFinally, folded, inner: null };
}

function stepBox(step: GraphNode, cx: Context): Box {
  const isOpen = cx.open.has(step.step);
  return {
    id: step.step,
    step,
    levels: [step.level, step.level],
    finally: step.finally,
    folded: isOpen ? [] : (cx.children.get(step.step) ?? []),
    inner: isOpen && cx.children.has(step.step) ? group(step.step, cx) : null,
  };
}

/** The edges between boxes, each once. */
function edgesOf(columns: Box[][], edges: GraphEdge[]): GraphEdge[] {
  const boxes = new Map<string, string>();
  for (const box of columns.flat()) {
    if (box.step) boxes.set(box.step.step, box.id);
    else for (const { step } of box.folded) boxes.set(step, box.id);
  }
  const made = new Map<string, GraphEdge>();
  for (const edge of edges) {
    const [from, to] = [boxes.get(edge.from), boxes.get(edge.to)];
    if (from !== undefined && to !== undefined && from !== to) made.set(`${from}\n${to}`, { from, to });
  }
  return [...made.values()];
}
