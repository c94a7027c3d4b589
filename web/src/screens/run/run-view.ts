// What the screens say about a run, from the fields that the server sends.
import type { Graph } from '../../api/types';
import type { Run } from '../../api/types';
import { isOpen, type AnyState } from '../../lib/states';

/** A run that is being stopped is `running` with a reason: the console shows it as a state of its own. */
export function shownState(run: Pick<Run, 'state' | 'reason'>): AnyState {
  return run.state === 'running' && run.reason?.startsWith('cancelling') ? 'cancelling' : run.state;
}

export function isEnded(run: Pick<Run, 'state'>): boolean {
  return !isOpen(run.state);
}

export type RunAction = 'move' | 'pause' | 'resume' | 'cancel' | 'replay' | 'retryFailed' | 'retry';

/** A run whose child runs are those of a span of due times. Such a child run has the same trigger. */
export function isBackfill(run: Pick<Run, 'trigger' | 'parent'>): boolean {
  return run.trigger === 'backfill' && !run.parent;
}

/** What can be done to a run, the primary action last. `flow` is the graph of a workflow, which has no attempt to move. */
export function actionsOf(
  run: Pick<Run, 'state' | 'reason' | 'trigger' | 'parent'>,
  flow: Pick<Graph, 'paused'> | null = null,
): RunAction[] {
  if (isBackfill(run)) {
    if (isEnded(run)) return [];
    if (shownState(run) !== 'running') return ['cancel'];
    return [run.reason?.startsWith('paused') ? 'resume' : 'pause', 'cancel'];
  }
  if (isEnded(run)) {
    // A skipped run has no steps. A run that succeeded has no failed steps.
    const hasFailed = flow && run.state !== 'succeeded' && run.state !== 'skipped';
    return hasFailed ? ['replay', 'retry', 'retryFailed'] : ['replay', 'retry'];
  }
  // A run that is being stopped can still be killed at once.
  if (shownState(run) !== 'running') return ['cancel'];
  if (flow) return [flow.paused ? 'resume' : 'pause', 'cancel'];
  return ['move', 'cancel'];
}

/** From the first start to the end, or to `now` while it runs. Null: it did not start. */
export function tookMs(run: Run, now: number): number | null {
  const first = run.attempts?.find((attempt) => attempt.started_at)?.started_at ?? run.started_at;
  if (!first) return null;
  const end = run.finished_at ? Date.parse(run.finished_at) : now;
  return Math.max(0, end - Date.parse(first));
}

/** Parameters typed as text. */
export function readParams(text: string): { params: Record<string, unknown> } | { error: 'json' | 'object' } {
  if (text.trim() === '') return { params: {} };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { error: 'json' };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { error: 'object' };
  return { params: value as Record<string, unknown> };
}
