import { describe, expect, test } from 'vitest';
import type { Graph, GraphNode } from '../../src/api/types';
import { fold, STEPS_MAX, type Group } from '../../src/screens/workflow/fold';
import { gantt } from '../../src/screens/workflow/gantt';
import { isIn, layout, neighbour, toPath, type Drawing } from '../../src/screens/workflow/layout';
import {
  commented,
  canRetryFrom,
  fieldOf,
  hasLog,
  hasOutput,
  nameOf,
  shownOutput,
  shownStep,
  stepActions,
  stepTimes,
  tally,
} from '../../src/screens/workflow/steps';

const T = Date.parse('2026-11-17T02:00:00.000Z');
const iso = (offset: number) => new Date(T + offset).toISOString();
const NONE: ReadonlySet<string> = new Set();

/** A step at a level; `name` may be `settle/book`. */
function step(name: string, level: number, rest: Partial<GraphNode> = {}): GraphNode {
  const cut = name.lastIndexOf('/');
  const parent = cut < 0 ? {} : { parent: name.slice(0, cut) };
  return { step: name, ...parent, kind: 'shell', level, finally: false, rule: 'all_succeeded', ...rest };
}

/** Edges are written `a>b`. */
function graph(nodes: GraphNode[], ...edges: string[]): Graph {
  const pairs = edges.map((edge) => edge.split('>') as [string, string]);
  return { namespace: 'default', nodes, edges: pairs.map(([from, to]) => ({ from, to })) };
}

const ids = (group: Group) => group.columns.map((column) => column.map((box) => box.id));
const places = ({ placed }: Drawing) => Object.fromEntries(placed.map((each) => [each.box.id, each]));

const DIAMOND = graph([step('a', 1), step('b', 2), step('c', 2), step('d', 3)], 'a>b', 'a>c', 'b>d', 'c>d');
const NESTED = graph(
  [step('a', 1), step('s', 2, { kind: 'workflow' }), step('s/x', 1), step('s/y', 2), step('z', 3)],
  'a>s',
  's/x>s/y',
  's>z',
);
/** Levels of the same width, each step needs the one before it in its row. */
function large(levels: number, width: number, state?: GraphNode['state']): Graph {
  const nodes: GraphNode[] = [];
  const edges: string[] = [];
  for (let level = 1; level <= levels; level += 1)
    for (let row = 0; row < width; row += 1) {
      nodes.push(step(`${level}-${row}`, level, state ? { state } : {}));
      if (level > 1) edges.push(`${level - 1}-${row}>${level}-${row}`);
    }
  return graph(nodes, ...edges);
}

describe('folding', () => {
  test('a small graph has a box for each step, in columns by level', () => {
    expect(ids(fold(DIAMOND, NONE))).toEqual([['a'], ['b', 'c'], ['d']]);
  });

  test('steps of finally come last, whatever their level', () => {
    const group = fold(graph([step('clean', 1, { finally: true }), step('a', 1), step('b', 2)]), NONE);
    expect(ids(group)).toEqual([['a'], ['b'], ['clean']]);
  });

  test('a sub-workflow is one box until it is unfolded', () => {
    const [folded, open] = [fold(NESTED, NONE), fold(NESTED, new Set(['s']))];
    expect(ids(folded)).toEqual([['a'], ['s'], ['z']]);
    expect(folded.columns[1]?.[0]?.folded.map(nameOf)).toEqual(['x', 'y']);
    const inner = open.columns[1]?.[0]?.inner;
    expect(inner && ids(inner)).toEqual([['s/x'], ['s/y']]);
    expect(inner?.edges).toEqual([{ from: 's/x', to: 's/y' }]);
    expect(open.edges).toHaveLength(2);
  });

  test('a large graph has a box for each level, and the edges between them once', () => {
    const group = fold(large(3, 200), NONE);
    expect(group.columns.map((column) => column.length)).toEqual([1, 1, 1]);
    expect(group.columns[1]?.[0]).toMatchObject({ step: null, levels: [2, 2] });
    expect(group.edges).toHaveLength(2);
    expect(ids(fold(large(1, STEPS_MAX), NONE))[0]).toHaveLength(STEPS_MAX);
  });

  test('one level of a large graph is unfolded', () => {
    const big = large(3, 200);
    const level = fold(big, NONE).columns[1]?.[0]?.id ?? '';
    const group = fold(big, new Set([level]));
    expect(group.columns.map((column) => column.length)).toEqual([1, 200, 1]);
    expect(group.edges).toHaveLength(400);
  });

  test('levels of a long chain share boxes', () => {
    const group = fold(large(1_000, 1), NONE);
    expect(group.columns).toHaveLength(100);
    expect(group.columns[0]?.[0]?.levels).toEqual([1, 10]);
    expect(group.columns[0]?.[0]?.folded).toHaveLength(10);
  });

  test('an edge to a step that is not read yet is left out', () => {
    expect(fold(graph([step('a', 1)], 'a>b', 'x>a'), NONE).edges).toEqual([]);
  });
});

/** Boxes of one workflow do not touch. */
function checkApart({ placed }: Drawing, of: (id: string) => boolean = () => true) {
  const mine = placed.filter(({ box }) => of(box.id));
  for (const [index, a] of mine.entries())
    for (const b of mine.slice(index + 1)) {
      const area = { left: b.x, top: b.y, right: b.x + b.width, bottom: b.y + b.height };
      expect(isIn(a, area), `${a.box.id} and ${b.box.id}`).toBe(false);
    }
}

describe('layout', () => {
  test('a diamond is symmetrical, from left to right', () => {
    const drawing = layout(fold(DIAMOND, NONE));
    const { a, b, c, d } = places(drawing);
    expect(a!.x < b!.x && b!.x === c!.x && c!.x < d!.x).toBe(true);
    expect(a!.y).toBe((b!.y + c!.y) / 2);
    expect(d!.y).toBe(a!.y);
    expect(Math.min(...drawing.placed.map((each) => each.y))).toBe(0);
    checkApart(drawing);
  });

  test('rows that were given in another order do not cross', () => {
    const nodes = [step('a', 1), step('b', 1), step('b2', 2), step('a2', 2)];
    const { a, b, a2, b2 } = places(layout(fold(graph(nodes, 'a>a2', 'b>b2'), NONE)));
    expect(a!.y < b!.y).toBe(a2!.y < b2!.y);
    expect([a2!.y, b2!.y]).toEqual([a!.y, b!.y]);
  });

  test('a long edge passes beside the boxes between its ends', () => {
    const nodes = [step('a', 1), step('b', 2), step('c', 3)];
    const drawing = layout(fold(graph(nodes, 'a>b', 'b>c', 'a>c'), NONE));
    const { b } = places(drawing);
    const long = drawing.lines.find((line) => line.from === 'a' && line.to === 'c');
    const lane = long?.points.find(([x]) => x === b!.x)?.[1] ?? NaN;
    expect(lane < b!.y || lane > b!.y + b!.height).toBe(true);
  });

  test('an unfolded sub-workflow holds its steps', () => {
    const drawing = layout(fold(NESTED, new Set(['s'])));
    const { s, z, ...rest } = places(drawing);
    for (const inner of [rest['s/x']!, rest['s/y']!]) {
      expect(inner.x > s!.x && inner.x + inner.width < s!.x + s!.width).toBe(true);
      expect(inner.y > s!.y && inner.y + inner.height < s!.y + s!.height).toBe(true);
    }
    expect(z!.x).toBeGreaterThan(s!.x + s!.width);
    checkApart(drawing, (id) => !id.includes('/'));
    expect(drawing.lines.map(({ from, to }) => `${from}>${to}`).sort()).toEqual(['a>s', 's/x>s/y', 's>z']);
  });

  test('finally is set apart by a line', () => {
    const drawing = layout(fold(graph([step('a', 1), step('f', 2, { finally: true })]), NONE));
    const { a, f } = places(drawing);
    const x = drawing.dividers[0]?.x ?? 0;
    expect(x > a!.x + a!.width && x < f!.x).toBe(true);
  });

  test('wide graphs do not overlap, and an empty one is empty', () => {
    checkApart(layout(fold(large(4, 12, 'open'), NONE)));
    expect(layout(fold(graph([]), NONE))).toMatchObject({ width: 0, height: 0, placed: [] });
  });

  test('lines are one path of curves', () => {
    const lines = [
      { from: 'a', to: 'b', points: [[0, 0] as [number, number], [10, 20] as [number, number]] },
    ];
    expect(toPath(lines)).toBe('M0 0C5 0 5 20 10 20');
  });

  test('arrow keys go to the nearest box in their direction', () => {
    const { placed } = layout(fold(DIAMOND, NONE));
    const [upper, lower] = placed
      .filter(({ box }) => box.levels[0] === 2)
      .sort((one, other) => one.y - other.y)
      .map(({ box }) => box.id);
    expect(neighbour(placed, upper!, 'ArrowDown')).toBe(lower);
    expect(neighbour(placed, upper!, 'ArrowRight')).toBe('d');
    expect(neighbour(placed, 'd', 'ArrowRight')).toBeNull();
    expect(['b', 'c']).toContain(neighbour(placed, 'd', 'ArrowLeft'));
    expect(neighbour(placed, upper!, 'ArrowUp')).toBeNull();
  });
});

describe('a step', () => {
  test('is shown by what it does, not only by its state', () => {
    const of = (rest: Partial<GraphNode>) => shownStep(step('a', 1, rest));
    expect(of({})).toBeNull();
    expect(of({ state: 'open' })).toBe('open');
    expect(of({ state: 'active' })).toBe('ready');
    expect(of({ state: 'active', started_at: iso(0) })).toBe('running');
    expect(of({ state: 'active', kind: 'approve' })).toBe('approval');
    expect(of({ state: 'active', kind: 'wait' })).toBe('waiting');
    expect(of({ state: 'failed', reason: 'timed_out' })).toBe('timed_out');
    expect(of({ state: 'failed', reason: 'rejected' })).toBe('failed');
  });

  test('offers what its state allows', () => {
    const of = (state: GraphNode['state'], kind = 'shell') => stepActions(step('a', 1, { state, kind }));
    expect(of('open')).toEqual(['skip']);
    expect(of('active')).toEqual(['cancel']);
    expect(of('active', 'approve')).toEqual(['approve', 'reject', 'skip']);
    expect(of('succeeded')).toEqual([]);
  });

  test('is where a retry can begin when its workflow has ended', () => {
    const of = (state: Graph['state'], name = 'a') => canRetryFrom({ run: '7', state }, step(name, 1));
    expect(of('failed')).toBe(true);
    expect(of('succeeded')).toBe(true);
    expect(of('running')).toBe(false);
    expect(of('failed', 'settle/book'), 'it runs again with its sub-workflow').toBe(false);
    expect(canRetryFrom({}, step('a', 1)), 'the graph of a job').toBe(false);
  });

  test('counts its items, or the steps that are folded into it', () => {
    const items = { total: 20, succeeded: 18, failed: 2 };
    expect(tally(step('a', 1, { items }), [])).toEqual({ total: 20, done: 18, failed: 2 });
    const inner = [step('s/x', 1, { state: 'skipped' }), step('s/y', 1, { state: 'open' })];
    expect(tally(step('s', 1, { state: 'active' }), inner)).toEqual({ total: 2, done: 1, failed: 0 });
    expect(tally(step('a', 1, { state: 'open' }), [])).toBeNull();
  });

  test('a comment is sent only if there is one', () => {
    expect(commented('  ')).toBeUndefined();
    expect(commented(' fine ')).toEqual({ comment: 'fine' });
  });
});

describe('the Gantt chart', () => {
  const now = () => T + 1_000;
  const done = (decided: number, started: number, ended: number): Partial<GraphNode> => ({
    state: 'succeeded',
    decided_at: iso(decided),
    started_at: iso(started),
    ended_at: iso(ended),
  });
  function chart(nodes: GraphNode[], open = NONE) {
    return gantt(fold(graph(nodes), open), nodes, now);
  }

  test('waiting for a worker is separate from running', () => {
    const { rows, ticks } = chart([step('a', 1, done(0, 100, 400)), step('b', 2, done(400, 400, 1_000))]);
    expect(rows[0]).toMatchObject({ wait: { from: 0, to: 0.1 }, work: { from: 0.1, to: 0.4 } });
    expect(rows[0]).toMatchObject({ waitMs: 100, ranMs: 300 });
    expect(rows[1]).toMatchObject({ wait: { from: 0.4, to: 0.4 }, work: { from: 0.4, to: 1 } });
    expect(ticks.map((tick) => tick.ms)).toEqual([0, 200, 400, 600, 800, 1_000]);
  });

  test('an active step ends at now, one that has not started only waits', () => {
    const active = step('a', 1, { state: 'active', decided_at: iso(0), started_at: iso(500) });
    const queued = step('b', 1, { state: 'active', decided_at: iso(500) });
    const { rows } = chart([active, queued]);
    expect(rows[0]).toMatchObject({ work: { from: 0.5, to: 1 }, ranMs: 500 });
    expect(rows[1]).toMatchObject({ wait: { from: 0.5, to: 1 }, work: null, waitMs: 500, ranMs: null });
  });

  test('an approval needs no worker, so it waits in no queue', () => {
    const approval = step('a', 1, { kind: 'approve', state: 'active', decided_at: iso(0) });
    expect(stepTimes(approval, now)).toMatchObject({ waitMs: 0, ranMs: 1_000 });
  });

  test('the items of a map wait for workers, the step itself does not', () => {
    const items = { total: 4, succeeded: 4, failed: 0 };
    const made = step('a', 1, { items, state: 'succeeded', decided_at: iso(0), ended_at: iso(800) });
    expect(stepTimes(made, now)).toMatchObject({ waitMs: 0, ranMs: 800 });
    expect(shownStep({ ...made, state: 'active' })).toBe('running');
  });

  test('steps that did not start have no bar', () => {
    const skipped = step('b', 1, { state: 'skipped', decided_at: iso(0), ended_at: iso(0) });
    const { rows, ticks } = chart([step('a', 1, { state: 'open' }), skipped]);
    for (const row of rows) expect(row).toMatchObject({ wait: null, work: null, ranMs: null });
    expect(ticks).toEqual([]);
  });

  test('unfolded steps come after their own, one step to the right', () => {
    const nodes = NESTED.nodes.map((each) => ({ ...each, ...done(0, 0, 100) }));
    const rows = chart(nodes, new Set(['s'])).rows;
    expect(rows.map((row) => [row.box.id, row.depth])).toEqual([
      ['a', 0],
      ['s', 0],
      ['s/x', 1],
      ['s/y', 1],
      ['z', 0],
    ]);
  });

  test('a folded level lasts from its first decision to its last end', () => {
    const nodes = large(2, 300).nodes.map((each, index) => ({ ...each, ...done(index, index + 10, 1_000) }));
    const { rows } = chart(nodes);
    expect(rows).toHaveLength(2);
    expect(rows[0]).toMatchObject({ waitMs: 10, ranMs: 990 });
    expect(rows[1]?.wait?.from).toBe(0.3);
  });
});

test('of a long output the end is shown, of JSON each field on a line', () => {
  expect(shownOutput('{"rows":3}')).toBe('{\n  "rows": 3\n}');
  expect(shownOutput('three rows')).toBe('three rows');
  expect(shownOutput(`${'x'.repeat(5_000)}end`)).toMatch(/^…x{1997}end$/);
});

test('the log of a program is its output, and a sub-workflow has none', () => {
  const of = (kind: string) => [hasLog(step('a', 1, { kind })), hasOutput(step('a', 1, { kind }))];
  expect(of('shell')).toEqual([true, false]);
  expect(of('http')).toEqual([true, true]);
  expect(of('workflow')).toEqual([false, true]);
});

test('a step is found in the job file, also in a sub-workflow and in finally', () => {
  const made = graph([step('s', 1), step('s/clean', 1, { finally: true })]);
  expect(fieldOf(made, 's')).toBe('task.workflow.steps.s');
  expect(fieldOf(made, 's/clean')).toBe('task.workflow.steps.s.task.workflow.finally.clean');
});
