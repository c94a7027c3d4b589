import { count } from '../plural';

export const metrics = {
  title: 'Metrics',
  of: (node: string) => `Metrics of ${node}`,
  text: 'The metrics of the node that answers this page. Prometheus reads the same text from each node.',
  families: (n: number) => count(n, 'metric'),
  search: 'Search metrics…',
  again: 'Read again',
  download: 'Download',
  noMatch: 'No metric has this text in its name, its description or its labels.',
  noSamples: 'No value yet.',
};
