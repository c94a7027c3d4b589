export const event = {
  title: 'Send an event',
  send: 'Send an event',
  text: (namespace: string) =>
    `It starts the jobs of the namespace ${namespace} that listen to its name, and wakes the steps that wait for it.`,
  name: 'Event',
  nameHint: 'Letters, digits, - _ and .',
  params: 'Parameters (a JSON object, optional)',
  paramsHint: 'They are laid over the parameters of each job.',
  paramsWrong: 'This is not a JSON object.',
  key: 'Key (optional)',
  keyHint: 'Events with the same key have one effect within a day.',
  action: 'Send the event',
  sent: (name: string) => `Event ${name} is stored`,
  sentText: 'Every job that listens to it starts a run, even if a node fails.',
  id: 'Id of the event',
  runs: 'Runs that events started',
  another: 'Send another',
};
