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
