import { expect, test } from 'vitest';
import { families, matching } from '../../src/screens/metrics/families';

const TEXT = `# HELP punctual_runs_ended Runs that ended.
# TYPE punctual_runs_ended counter
punctual_runs_ended_total{state="succeeded"} 7
punctual_runs_ended_total{state="failed"} 1
# TYPE punctual_slots gauge
# UNIT punctual_slots slots
# HELP punctual_slots Slots of workers.
# EOF
`;

test('the values of a metric stand under its name and its description', () => {
  expect(families(TEXT)).toEqual([
    {
      name: 'punctual_runs_ended',
      help: 'Runs that ended.',
      samples: [
        'punctual_runs_ended_total{state="succeeded"} 7',
        'punctual_runs_ended_total{state="failed"} 1',
      ],
    },
    { name: 'punctual_slots', help: 'Slots of workers.', samples: [] },
  ]);
  expect(families('')).toEqual([]);
});

test('a metric is found by its name, its description and its labels', () => {
  const found = (search: string) => matching(families(TEXT), search).map(({ name }) => name);
  expect(found('FAILED')).toEqual(['punctual_runs_ended']);
  expect(found('of workers')).toEqual(['punctual_slots']);
  expect(found('')).toHaveLength(2);
  expect(found('nothing')).toEqual([]);
});
