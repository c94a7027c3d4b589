// What the screens say about a run, from the fields that the server sends.
import type { Run } from '../../api/types';
import { isOpen, type AnyState } from '../../lib/states';

/** A run that is being stopped is `running` with a reason: the console shows it as a state of its own. */
export function shownState(run: Pick<Run, 'state' | 'reason'>): AnyState {
  return run.state === 'running' && run.reason?.startsWith('cancelling') ? 'cancelling' : run.state;
}

export function isEnded(run: Pick<Run, 'state'>): boolean {
  return !isOpen(run.state);
}

/** What can be done to a run, the primary action last. */
export function actionsOf(run: Pick<Run, 'state' | 'reason'>): ('move' | 'cancel' | 'replay' | 'retry')[] {
  if (isEnded(run)) return ['replay', 'retry'];
  // A run that is being stopped can still be killed at once.
  return shownState(run) === 'running' ? ['move', 'cancel'] : ['cancel'];
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
