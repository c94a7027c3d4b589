// The actions of the open screen: in the palette (Ctrl/Cmd-K), and by their key.
import { untrack } from 'svelte';

export interface Action {
  label: string;
  key?: string;
  run: () => void;
}

type Source = () => Action[];

let sources: Source[] = $state.raw([]);

/**
 * Offers actions while the component lives. Leave out what the token does not allow.
 *
 *     screenActions(() => (can('run') ? [{ label: t().queue.pause, key: 'p', run: () => (open = 'pause') }] : []));
 */
export function screenActions(source: Source): void {
  $effect(() => {
    untrack(() => (sources = [...sources, source]));
    return () => (sources = sources.filter((each) => each !== source));
  });
}

/** What the open screen offers now; reactive. */
export function openActions(): Action[] {
  return sources.flatMap((source) => source());
}
