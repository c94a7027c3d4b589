import { afterEach, expect, test } from 'vitest';
import { session } from '../../src/api/session.svelte';
import type { Job, Run, Whoami } from '../../src/api/types';
import { eventBody, eventCommands } from '../../src/dialogs/event';
import { holdBody, holdCommands, releaseCommands } from '../../src/dialogs/hold';
import { dialogs } from '../../src/dialogs/open.svelte';
import { jobActions, jobCommands, type Ask } from '../../src/screens/job/actions';
import { actionsOf } from '../../src/screens/run/run-view';

function sign(...rights: string[]) {
  session.who = { rights } as Whoami;
}
afterEach(() => (session.who = null));

const job = (state: Job['state']) => ({ name: 'nightly', state }) as Job;
const labels = (state: Job['state']) => jobActions(job(state), () => {}).map((action) => action.label);

test('a job offers what the token allows', () => {
  sign('read');
  expect(labels('active')).toEqual([]);
  sign('read', 'run');
  expect(labels('active')).toEqual(['Run now · nightly']);
  sign('read', 'run', 'edit');
  expect(labels('paused')).toEqual([
    'Run now · nightly',
    'Resume · nightly',
    'Edit · nightly',
    'Delete · nightly',
  ]);
});

test('an action of a job asks before it is done', () => {
  sign('run', 'edit');
  const asked: Ask[] = [];
  const actions = jobActions(job('active'), (ask) => asked.push(ask));
  for (const action of actions.filter(({ key }) => key !== 'e')) action.run();
  expect(asked.map((ask) => ask.what)).toEqual(['run', 'pause', 'delete']);
});

test('the command lines of a pause have its reason and its end', () => {
  const { cli, curl } = jobCommands('pause', 'nightly', {
    reason: 'the bank is closed',
    until: '2026-12-27T06:00:00.000Z',
  });
  expect(cli).toBe(
    `punctual job pause nightly --reason 'the bank is closed' --until 2026-12-27T06:00:00.000Z`,
  );
  expect(curl).toContain(`'{"reason":"the bank is closed","until":"2026-12-27T06:00:00.000Z"}'`);
  expect(jobCommands('pause', 'nightly').curl).not.toContain('-d');
  expect(jobCommands('pause', 'nightly', { reason: '-5 today' }).cli).toMatch(/ '--reason=-5 today'$/);
});

test('the command lines of a hold have its reason, its end and its fires', () => {
  const body = holdBody(' the bank is closed ', '', 'keep');
  expect(body).toEqual({ reason: 'the bank is closed', fires: 'keep' });
  expect(holdCommands('default', body).cli).toBe(`punctual hold --reason 'the bank is closed' --fires keep`);
  expect(holdCommands(null, body).cli).toContain('punctual hold --everywhere --reason');
  expect(holdCommands(null, body).curl).toContain('-X PUT');
  expect(releaseCommands('payments/eu').cli).toBe('punctual release -n payments/eu');
  expect(releaseCommands('payments/eu').curl).toContain('/api/v1/namespaces/payments.eu/hold');
});

test('the command lines of a start have its due time and its key', () => {
  const due_at = '2026-12-27T06:00:00.000Z';
  const { cli, curl } = jobCommands('run', 'nightly', { due_at, key: 'order-17' });
  expect(cli).toBe(`punctual job run nightly --at ${due_at} --key order-17`);
  expect(curl).toContain(`'{"due_at":"${due_at}","key":"order-17"}'`);
});

test('a job that listens to events offers to send each of them', () => {
  const schedule = [{ event: { name: 'order-paid' } }, { event: { queue: 'orders' } }, { every: '5m' }];
  const listener = { ...job('active'), schedule } as Job;
  const offered = () => jobActions(listener, () => {}).filter(({ label }) => label.startsWith('Send'));
  sign('read');
  expect(offered()).toEqual([]);
  sign('read', 'run');
  expect(offered().map(({ label }) => label)).toEqual(['Send an event · order-paid']);
  offered()[0]!.run();
  expect(dialogs.open).toEqual({ what: 'event', name: 'order-paid' });
  dialogs.open = null;
});

test('the command lines of an event have its key and its parameters', () => {
  expect(eventBody('', {})).toEqual({});
  expect(eventBody('', null)).toEqual({});
  const { cli, curl } = eventCommands('order-paid', eventBody('order-7', { amount: 120 }));
  expect(cli).toBe(`punctual event send order-paid --key order-7 --params '{"amount":120}'`);
  expect(curl).toContain(`/events/order-paid -H 'Content-Type: application/json'`);
  expect(curl).toContain(`'{"key":"order-7","params":{"amount":120}}'`);
  expect(eventCommands('', {}).cli).toBe('punctual event send NAME');
});

test('a run is cancelled while it is open and retried when it has ended', () => {
  const made = { trigger: 'manual', parent: null } as const;
  const of = (state: Run['state'], reason: string | null = null) => actionsOf({ ...made, state, reason });
  expect(of('waiting')).toEqual(['cancel']);
  expect(of('running')).toEqual(['move', 'cancel']);
  expect(of('running', 'cancelling: asked by admin'), 'it can be killed at once').toEqual(['cancel']);
  expect(of('failed')).toEqual(['replay', 'retry']);
});

test('a workflow has no attempt to move: it is paused and resumed', () => {
  const run = { state: 'running', reason: null, trigger: 'manual', parent: null } as const;
  expect(actionsOf(run, {})).toEqual(['pause', 'cancel']);
  expect(actionsOf(run, { paused: { at: '2026-11-17T02:00:00Z' } })).toEqual(['resume', 'cancel']);
  expect(actionsOf({ ...run, state: 'failed' }, {})).toEqual(['replay', 'retry', 'retryFailed']);
  expect(actionsOf({ ...run, state: 'cancelled' }, {})).toEqual(['replay', 'retry', 'retryFailed']);
  expect(actionsOf({ ...run, state: 'succeeded' }, {})).toEqual(['replay', 'retry']);
});

test('a backfill is paused and resumed, and only its child runs are retried', () => {
  const run = { state: 'running', reason: null, trigger: 'backfill', parent: null } as const;
  expect(actionsOf(run)).toEqual(['pause', 'cancel']);
  expect(actionsOf({ ...run, reason: 'paused by ops' })).toEqual(['resume', 'cancel']);
  expect(actionsOf({ ...run, reason: 'cancelling: asked by admin' })).toEqual(['cancel']);
  expect(actionsOf({ ...run, state: 'failed' })).toEqual([]);
  expect(actionsOf({ ...run, parent: '7', state: 'failed' })).toEqual(['replay', 'retry']);
});
