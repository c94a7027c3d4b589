// Who uses the console. The token lives in sessionStorage: it ends with the tab.
import type { Whoami } from './types';

export type Right = 'read' | 'run' | 'edit' | 'admin';

const KEY = 'punctual.token';

class Session {
  token: string | null = $state(read());
  /** The server refused a request: the sign-in panel is shown. */
  signInNeeded = $state(false);
  /** A token was given and refused. */
  refused = $state(false);
  who: Whoami | null = $state(null);
  /** Grows with each sign-in; queries read again when it changes. */
  epoch = $state(0);

  signIn(token: string): void {
    this.token = token;
    write(token);
    this.signInNeeded = false;
    this.refused = false;
    this.epoch += 1;
  }

  signOut(): void {
    this.token = null;
    this.who = null;
    write(null);
    this.signInNeeded = true;
    this.epoch += 1;
  }

  /** A request with `token` was answered with 401. */
  unauthenticated(token: string | null): void {
    if (token !== this.token) return; // an old request; a new token was given since
    this.refused = token !== null;
    this.signInNeeded = true;
  }
}

function read(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function write(token: string | null): void {
  try {
    if (token === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, token);
  } catch {
    // storage is blocked: the token lasts as long as the page
  }
}

export const session = new Session();

/** Whether the token allows it. An action that is not allowed is not shown. */
export function can(right: Right): boolean {
  return session.who?.rights.includes(right) ?? false;
}
