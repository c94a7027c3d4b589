import { expect, test } from 'vitest';
import { lineOf, parse, place, tidy, toPath, withField, write } from '../../src/screens/editor/document';
import { addSchedule, kindOf, removeSchedule, withKind } from '../../src/screens/editor/schedules';

const FILE = `# settles the day
name: nightly
schedule:
  cron: "0 2 * * *" # at night
  timezone: Europe/Berlin
task:
  process:
    command: ["./settle", "--all"]
`;

test('the form changes one field; comments, quotes and order stay', () => {
  const changed = withField(FILE, ['schedule', 'cron'], '0 3 * * *');
  expect(changed).toBe(FILE.replace('0 2', '0 3'));
});

test('a field that is not there is added, an empty one is taken away with its parents', () => {
  const added = withField(FILE, ['retry', 'attempts'], 3);
  expect(parse(added).value).toMatchObject({ name: 'nightly', retry: { attempts: 3 } });
  const removed = withField(added, ['retry', 'attempts'], undefined);
  expect(parse(removed).value).toEqual(parse(FILE).value);
  expect(withField('name: a\n', ['name'], undefined)).toBe('');
  expect(withField('', ['name'], 'a')).toBe('name: a\n');
});

test('labels and search parameters go through the document', () => {
  const text = withField(withField(FILE, ['labels'], { team: 'billing' }), ['search'], ['customer']);
  expect(parse(text).value).toMatchObject({ labels: { team: 'billing' }, search: ['customer'] });
});

test('an unreadable text has an error at its line and no value', () => {
  const parsed = parse('name: a\ntask: [');
  expect(parsed.value).toBeNull();
  expect(parsed.errors[0]?.line).toBe(2);
  expect(parse('- a\n').value).toBeNull();
  expect(parse('').value).toEqual({});
});

test('a field of the server is found in the text, or its nearest parent', () => {
  const parsed = parse(FILE);
  const line = (field: string) => lineOf(FILE, place(parsed, field).from);
  expect(line('schedule.cron')).toBe(4);
  expect(line('task.process.command[1]')).toBe(8);
  expect(line('task.process.dir')).toBe(7);
  expect(line('retry.attempts')).toBe(1);
  const { from, to } = place(parsed, 'task.process.command[1]');
  expect(FILE.slice(from, to)).toBe('"--all"');
  expect(toPath('schedule[1].cron')).toEqual(['schedule', 1, 'cron']);
});

test('a job of the server is written as its author would', () => {
  const job = {
    id: '1',
    namespace: 'default',
    params: {},
    task: { shell: 'echo' },
    name: 'a',
    retry: { attempts: 3, delay: '10s', backoff: 'exponential', max_delay: '10m', jitter: '0%' },
    keep: { runs: 1000, days: 30 },
    timeout: null,
    revision: 4,
    state: 'active',
    next_due_at: null,
    labels: { team: 'ops' },
  };
  expect(tidy(job)).toEqual({
    name: 'a',
    labels: { team: 'ops' },
    task: { shell: 'echo' },
    retry: { attempts: 3 },
  });
  expect(parse(write(job)).value).toEqual(tidy(job));
  expect(write(job).startsWith('name: a\n')).toBe(true);
});

test('schedules are one map or a list', () => {
  const two = addSchedule(FILE);
  expect(parse(two).value?.schedule).toHaveLength(2);
  expect(parse(removeSchedule(two, 1)).value?.schedule).toEqual(parse(FILE).value?.schedule);
  expect(parse(removeSchedule(FILE, 0)).value).not.toHaveProperty('schedule');
  expect(parse(addSchedule('name: a\n')).value?.schedule).toEqual({ every: '5m' });
  expect(kindOf({ every: '5m' })).toBe('every');
  expect(withKind({ every: '5m', jitter: '1m' }, 'cron', 'UTC')).toEqual({
    cron: '0 2 * * *',
    timezone: 'UTC',
    jitter: '1m',
  });
  // Nothing but a clock has jitter.
  expect(withKind({ every: '5m', jitter: '1m', end: '2030-01-01T00:00:00Z' }, 'event', 'UTC')).toEqual({
    event: { name: 'order-paid' },
    end: '2030-01-01T00:00:00Z',
  });
  expect(kindOf({ after: { job: 'load' } })).toBe('after');
});
