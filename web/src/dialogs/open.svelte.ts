// The dialogs that belong to no screen: the palette opens them everywhere. `App.svelte` draws the open one.

/** `name`: the event that the form names at first. */
export type Open =
  { what: 'event'; name: string } | { what: 'submit' } | { what: 'export' } | { what: 'hold' };

class Dialogs {
  open: Open | null = $state.raw(null);
}

export const dialogs = new Dialogs();
