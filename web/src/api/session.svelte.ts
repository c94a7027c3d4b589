// Who uses the console.
import { storedToken, storeToken } from './token';
import type { Whoami } from './types';

export type Right = 'read' | 'run' | 'edit' | 'admin';

class Session {
  token: string | null = $state(storedToken());
  /** The server refused a request: the sign-in panel is shown. */
  signInNeeded = $state(false);
  /** A token was given and refused. */
  refused = $state(false);
  who: Whoami | null = $state(null);
  /** Grows with each sign-in; queries read again when it changes. */
  epoch = $state(0);

  signIn(token: string): void {
    this.token = token;
    storeToken(token);
    this.signInNeeded = false;
    this.refused = false;
    this.epoch += 1;
  }

  signOut(): void {
    this.token = null;
    this.who = null;
    storeToken(null);
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

export const session = new Session();

/** Whether the token allows it. An action that is not allowed is not shown. */
export function can(right: Right): boolean {
  return session.who?.rights.includes(right) ?? false;
}
