import { flushSync } from 'svelte';
import { expect, test, vi } from 'vitest';
import { openActions, screenActions } from '../../src/shell/actions.svelte';
import { onkeydown } from '../../src/shell/keys.svelte';
import { fades } from '../../src/ui/fades';

test('a key runs the action of the open screen that has it', () => {
  const ran: string[] = [];
  const stop = $effect.root(() => {
    screenActions(() => [{ label: 'Cancel', key: 'c', run: () => ran.push('cancel') }]);
  });
  flushSync();
  const press = (key: string) => onkeydown(new KeyboardEvent('keydown', { key }));
  press('c');
  press('y');
  stop();
  press('c');
  expect(ran).toEqual(['cancel']);
});

test('the palette has the actions of the open screen, and loses them with it', () => {
  let allowed = $state(false);
  const stop = $effect.root(() => {
    screenActions(() => (allowed ? [{ label: 'Pause', run: () => {} }] : []));
  });
  flushSync();
  expect(openActions()).toEqual([]);
  allowed = true;
  expect(openActions().map((action) => action.label)).toEqual(['Pause']);
  stop();
  expect(openActions()).toEqual([]);
});

function faded(values: unknown[], reduced = false): number {
  vi.stubGlobal('matchMedia', () => ({ matches: reduced }));
  const element = document.createElement('span');
  const animate = vi.fn();
  element.animate = animate;
  let value: unknown;
  const attach = fades(() => value);
  for (value of values) attach(element);
  vi.unstubAllGlobals();
  return animate.mock.calls.length;
}

test('a changed value fades; the first value, an equal one and reduced motion do not', () => {
  expect(faded([1])).toBe(0);
  expect(faded([1, 1])).toBe(0);
  expect(faded([1, 2, 3])).toBe(2);
  expect(faded([undefined, 2])).toBe(1);
  expect(faded([1, 2], true)).toBe(0);
});
