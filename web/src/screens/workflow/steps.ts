// What the screens say about a step of a workflow, from the fields that the server sends.
import type { Graph, GraphNode, StepState } from '../../api/types';
import { isOpen, type AnyState } from '../../lib/states';
import { pretty } from '../../lib/text';

/** The state as it is shown. Null: the graph of a job has no states. */
export function shownStep(step: GraphNode): AnyState | null {
  switch (step.state) {
    case undefined:
      return null;
    case 'open':
      return 'open';
    case 'active':
      if (step.kind === 'approve') return 'approval';
      if (step.kind === 'wait') return 'waiting';
      return step.started_at || step.items ? 'running' : 'ready';
    case 'failed':
      return step.reason === 'timed_out' || step.reason === 'cancelled' ? step.reason : 'failed';
    default:
      return step.state;
  }
}

export const STEP_STATES: readonly StepState[] = ['failed', 'active', 'open', 'succeeded', 'skipped'];

/** How many steps are in each state. */
export function counts(steps: readonly GraphNode[]): Record<StepState, number> {
  const made = { open: 0, active: 0, succeeded: 0, failed: 0, skipped: 0 };
  for (const { state } of steps) if (state) made[state] += 1;
  return made;
}

export interface Tally {
  total: number;
  done: number;
  failed: number;
}

/** The items of a map, or the steps that are folded into a sub-workflow. Null: the step has neither. */
export function tally(step: GraphNode, folded: readonly GraphNode[]): Tally | null {
  if (step.items) return { total: step.items.total, done: step.items.succeeded, failed: step.items.failed };
  if (folded.length === 0 || !step.state) return null;
  const { succeeded, skipped, failed } = counts(folded);
  return { total: folded.length, done: succeeded + skipped, failed };
}

export interface StepTimes {
  /** When it was decided that the step starts. Null: it has not been, or it was skipped. */
  decided: number | null;
  started: number | null;
  ended: number | null;
  /** From the decision to the start. */
  waitMs: number | null;
  ranMs: number | null;
}

const NO_TIMES: StepTimes = { decided: null, started: null, ended: null, waitMs: null, ranMs: null };
const time = (text: string | null | undefined) => (text ? Date.parse(text) : null);

/** A wait and an approval need no worker, and each item of a map waits for its own: they begin when they are decided. */
export function startsAtOnce(step: GraphNode): boolean {
  return step.kind === 'wait' || step.kind === 'approve' || Boolean(step.items);
}

/** It lasts until an event, an instant or a person ends it. */
export function isWaiting(step: GraphNode): boolean {
  return step.state === 'active' && (step.kind === 'wait' || step.kind === 'approve');
}

/** Waiting for a worker is separate from running. `now` is asked only while the step is active. */
export function stepTimes(step: GraphNode, now: () => number): StepTimes {
  const decided = time(step.decided_at) ?? time(step.started_at);
  if (decided === null || step.state === 'open' || step.state === 'skipped') return NO_TIMES;
  const started = time(step.started_at) ?? (startsAtOnce(step) ? decided : null);
  const ended = time(step.ended_at);
  const waitEnd = started ?? ended ?? now();
  return {
    decided,
    started,
    ended,
    waitMs: Math.max(0, waitEnd - decided),
    ranMs: started === null ? null : Math.max(0, (ended ?? now()) - started),
  };
}

export type StepAction = 'approve' | 'reject' | 'skip' | 'cancel';

/** What can be done to a step by hand, in the order of its buttons. */
export function stepActions(step: Pick<GraphNode, 'state' | 'kind'>): StepAction[] {
  if (step.state === 'open') return ['skip'];
  if (step.state !== 'active') return [];
  if (step.kind === 'approve') return ['approve', 'reject', 'skip'];
  if (step.kind === 'wait') return ['skip', 'cancel'];
  return ['cancel'];
}

/** Whether a new run can begin at this step: its workflow has ended. A step of a sub-workflow runs again with the whole of it. */
export function canRetryFrom(graph: Pick<Graph, 'run' | 'state'>, step: GraphNode): boolean {
  return !!graph.run && !!graph.state && !isOpen(graph.state) && !step.parent;
}

/** What a program prints is its output: the log shows it. */
export function hasOutput({ kind }: GraphNode): boolean {
  return kind !== 'process' && kind !== 'shell';
}

/** The run of a sub-workflow and of another job is at work on no worker. */
export function hasLog({ kind }: GraphNode): boolean {
  return kind !== 'workflow' && kind !== 'job';
}

const EXPRESSIONS = ['when', 'map', 'params', 'wait.until', 'wait.event.key', 'switch.on'] as const;

/** The step and the kind of the expression at a place such as `steps.load.when`. */
export function expressionAt(field: string): { step: string; kind: string } {
  const kind = EXPRESSIONS.find((kind) => field.endsWith(`.${kind}`)) ?? '';
  return { step: field.slice(field.indexOf('.') + 1, kind ? -kind.length - 1 : undefined), kind };
}

const OUTPUT_MAX = 2000;

/** The output of a run as it is shown beside others: JSON with line breaks, and of a long output the end. */
export function shownOutput(output: string): string {
  return output.length > OUTPUT_MAX ? `…${output.slice(-OUTPUT_MAX)}` : pretty(output);
}

/** The name inside its own workflow: `book` of `settle/book`. */
export function nameOf(step: GraphNode): string {
  return step.parent ? step.step.slice(step.parent.length + 1) : step.step;
}

/** The body of a decision by hand: nothing without a comment. */
export function commented(comment: string): { comment: string } | undefined {
  return comment.trim() ? { comment: comment.trim() } : undefined;
}

/** Where a step stands in the job file, such as `task.workflow.steps.settle`. */
export function fieldOf({ nodes }: Graph, path: string): string {
  const names = path.split('/');
  const fields = names.map((name, index) => {
    const step = names.slice(0, index + 1).join('/');
    const part = nodes.find((node) => node.step === step)?.finally ? 'finally' : 'steps';
    return `task.workflow.${part}.${name}`;
  });
  return fields.join('.');
}
