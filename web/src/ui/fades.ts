// Shows that a live update changed an element: its background fades for 600 ms.
const FADE_MS = 600;

/**
 * Fades the element when the value changes, not when it first appears. Compares by identity: give it a number or a text.
 *
 *     <span {@attach fades(() => queue.queued)}>{queue.queued}</span>
 */
export function fades(value: () => unknown) {
  let last: unknown;
  let seen = false;
  return (element: Element): void => {
    const next = value();
    const changed = seen && !Object.is(next, last);
    [last, seen] = [next, true];
    if (!changed || matchMedia('(prefers-reduced-motion: reduce)').matches) return;
    const backgroundColor = getComputedStyle(element).getPropertyValue('--changed');
    // Without a last keyframe it ends with the element's own background.
    element.animate([{ backgroundColor, offset: 0 }], { duration: FADE_MS, easing: 'ease-out' });
  };
}
