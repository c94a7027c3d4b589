// The one tooltip of the page; `shell/Tip.svelte` draws it.
export interface TipContent {
  /** Lines, or pairs of a label and a value. */
  rows: (string | [label: string, value: string])[];
}

class Tip {
  anchor: DOMRect | null = $state.raw(null);
  content: TipContent | null = $state.raw(null);

  show(element: Element, content: TipContent): void {
    this.anchor = element.getBoundingClientRect();
    this.content = content;
  }

  hide(): void {
    this.content = null;
  }
}

export const tip = new Tip();

/** Shows a tooltip on hover of each part that matches, with one listener for all of them. */
export function tipsFor(parts: string, content: (part: Element) => TipContent | null) {
  return (element: Element): (() => void) => {
    let shown: Element | null = null;
    const show = (part: Element | null) => {
      if (part === shown) return;
      shown = part;
      const made = part && content(part);
      if (part && made) tip.show(part, made);
      else tip.hide();
    };
    const over = (event: Event) => show((event.target as Element).closest(parts));
    const leave = () => show(null);
    element.addEventListener('pointerover', over);
    element.addEventListener('pointerleave', leave);
    return () => {
      element.removeEventListener('pointerover', over);
      element.removeEventListener('pointerleave', leave);
    };
  };
}

/** Shows a tooltip on hover and on focus: `<span {@attach tipFor(() => ({ rows: ['…'] }))}>`. */
export function tipFor(content: () => TipContent | null) {
  return (element: Element): (() => void) => {
    const show = () => {
      const made = content();
      if (made) tip.show(element, made);
    };
    const hide = () => tip.hide();
    const pairs = [
      ['pointerenter', show],
      ['focusin', show],
      ['pointerleave', hide],
      ['focusout', hide],
    ] as const;
    for (const [name, handler] of pairs) element.addEventListener(name, handler);
    return () => {
      for (const [name, handler] of pairs) element.removeEventListener(name, handler);
    };
  };
}
