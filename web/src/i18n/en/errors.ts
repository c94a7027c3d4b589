export const errors = {
  what: (what: string) => `${what} failed.`,
  read: 'The server did not answer as expected.',
  unreachable: 'No answer arrived. Check that the node runs and that this page can reach it.',
  unauthenticated: 'Sign in with a valid token.',
  forbidden: 'Your token does not allow this. Ask an administrator for a token with another role.',
  tooBusy: 'The server is busy. Wait a moment, then retry.',
  gone: 'It may have been deleted. Go back to the list.',
  conflict: 'It was changed in the meantime. Read the new state, then try again.',
  invalid: 'Correct the input, then try again.',
  other: 'Retry. If it fails again, look for the code in the documentation and in the log of the node.',
};
