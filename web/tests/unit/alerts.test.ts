import { expect, test } from 'vitest';
import { alertsOf, amountOf, withCondition } from '../../src/screens/editor/alerts';
import { hoursFrom, stateOf } from '../../src/screens/incidents/incident';
import type { Incident } from '../../src/api/types';

test('one alert is read like a list of one', () => {
  expect(alertsOf({ on: 'late', by: '1m' })).toEqual([{ on: 'late', by: '1m' }]);
  expect(alertsOf([{ on: 'failed' }, { on: 'missing', within: '1d' }])).toHaveLength(2);
  expect(alertsOf(undefined)).toEqual([]);
  expect(alertsOf('late')).toEqual([{ on: 'failed' }]);
});

test('another condition keeps the channels only', () => {
  const failed = { on: 'failed' as const, after: 3, to: ['ops'], repeat: '4h' };
  expect(withCondition(failed, 'missing')).toEqual({
    on: 'missing',
    within: '26h',
    to: ['ops'],
    repeat: '4h',
  });
  expect(withCondition(undefined, 'dead_letter')).toEqual({ on: 'dead_letter' });
  expect(amountOf({ on: 'failed', of: 3, in: '1d' })?.field).toBe('of');
  expect(amountOf({ on: 'dead_letter' })).toBeNull();
});

test('the state of an incident is the strongest of what is known', () => {
  const open = { ended_at: null } as Incident;
  const by = { at: '2030-01-01T00:00:00.000Z' };
  expect(stateOf(open)).toBe('open');
  expect(stateOf({ ...open, acknowledged: by })).toBe('acknowledged');
  expect(stateOf({ ...open, acknowledged: by, silence: { ...by, until: by.at } })).toBe('silenced');
  expect(stateOf({ ...open, ended_at: by.at, acknowledged: by })).toBe('over');
});

test('a silence lasts some hours', () => {
  expect(hoursFrom(0, '8h')).toBe('1970-01-01T08:00:00.000Z');
  expect(hoursFrom(0, '168h')).toBe('1970-01-08T00:00:00.000Z');
});
