export const exports = {
  title: 'Export the history',
  action: 'Download',
  text: 'All jobs, runs, events and skipped due times of all namespaces, one JSON object a line. The command punctual verify checks such a file.',
  from: 'Due from (optional)',
  to: 'Due to (optional)',
  zone: (zone: string) => `In ${zone}. It limits runs and skipped due times; jobs are always in the file.`,
  order: 'The end is before the beginning.',
  received: (size: string) => `${size} received. Keep this dialog open until the download is complete.`,
};
