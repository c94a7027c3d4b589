// The keyboard: one listener for the page; lists register what their keys do, screens their actions.
import { dialogs } from '../dialogs/open.svelte';
import { screens } from '../screens';
import { openActions } from './actions.svelte';
import { href, router } from '../lib/router.svelte';
import type { Screen } from '../lib/paths';

export interface ListKeys {
  move: (by: number) => void;
  open: () => void;
  select: () => void;
}

class Shell {
  paletteOpen = $state(false);
  keysOpen = $state(false);
}

export const shell = new Shell();

const lists: ListKeys[] = [];

/** Registers the list that j, k, Enter and x act on; the newest wins. Returns the undo function. */
export function listKeys(keys: ListKeys): () => void {
  lists.push(keys);
  return () => void lists.splice(lists.indexOf(keys), 1);
}

let goPressedAt = 0;
const GO_MS = 1200;

export function onkeydown(event: KeyboardEvent): void {
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    shell.paletteOpen = !shell.paletteOpen;
    return;
  }
  // Enter leaves the search of a list, so that j and k move in it.
  if (event.key === 'Enter' && !event.defaultPrevented && isSearch(event.target)) event.target.blur();
  if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
  // The palette or the dialog may still be loading.
  if (shell.paletteOpen || dialogs.open || document.querySelector('dialog[open]')) return;
  if (handled(event.key, event)) event.preventDefault();
}

function handled(key: string, event: KeyboardEvent): boolean {
  if (Date.now() - goPressedAt < GO_MS) {
    goPressedAt = 0;
    const screen = jumps().find((jump) => jump.key === key)?.screen;
    if (screen) router.open(href(screen as 'jobs'));
    return screen !== undefined;
  }
  const list = lists.at(-1);
  switch (key) {
    case '?':
      shell.keysOpen = true;
      return true;
    case '/':
      return focusSearch();
    case 'g':
      goPressedAt = Date.now();
      return true;
    case 'j':
      list?.move(1);
      return true;
    case 'k':
      list?.move(-1);
      return true;
    case 'x':
      list?.select();
      return true;
    case 'Enter':
      // A focused link or button handles Enter itself.
      if ((event.target as Element).closest?.('a, button, summary')) return false;
      list?.open();
      return true;
    default: {
      const action = openActions().findLast((each) => each.key === key);
      action?.run();
      return action !== undefined;
    }
  }
}

function focusSearch(): boolean {
  const field = document.querySelector<HTMLInputElement>('main [data-search]');
  if (field) field.focus();
  else shell.paletteOpen = true;
  return true;
}

function isSearch(target: EventTarget | null): target is HTMLElement {
  return target instanceof HTMLElement && target.matches('main [data-search]');
}

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return Boolean(element?.closest?.('input:not([type=checkbox]), textarea, select, [contenteditable=true]'));
}

/** The letters after `g`. */
export function jumps(): { key: string; screen: Screen }[] {
  return (Object.keys(screens) as Screen[]).flatMap((screen) => {
    const key = screens[screen].key;
    return key ? [{ key, screen }] : [];
  });
}
