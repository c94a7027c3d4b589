/** Texts that were left without saving, by `namespace/job`; they last as long as the page. */
export const drafts = new Map<string, string>();
