const rules = new Intl.PluralRules('en');
const numbers = new Intl.NumberFormat('en-GB');
const chinese = new Intl.NumberFormat('zh-CN');

/** `1 job`, `1,204 jobs`. English only: Chinese nouns have one form. */
export function count(n: number, one: string, other = `${one}s`): string {
  return `${numbers.format(n)} ${rules.select(n) === 'one' ? one : other}`;
}

/** A grouped number, for texts of `zh`. */
export function num(n: number): string {
  return chinese.format(n);
}
