// Numbers in texts. `Intl.NumberFormat` writes the same, but its tables take 30 ms to load: the first screen does without.

/** A number with groups of three digits and at most three decimals, `1,204`: the same in both languages. */
export function num(n: number): string {
  const [whole, decimals] = String(Math.round(n * 1000) / 1000).split('.');
  const groups = whole!.replace(/\B(?=(\d{3})+$)/g, ',');
  return decimals ? `${groups}.${decimals}` : groups;
}

/** `1 job`, `1,204 jobs`. English only: Chinese nouns have one form. */
export function count(n: number, one: string, other = `${one}s`): string {
  return `${num(n)} ${n === 1 ? one : other}`;
}
