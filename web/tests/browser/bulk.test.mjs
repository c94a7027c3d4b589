// What a user does with many runs or dead letters at once: some are selected, then all that match are meant.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { button, cluster, inDefault, inDialog, put, start, visit } from './scene.mjs';
import { until } from './servers.mjs';

let api;
before(async () => {
  api = (await cluster()).api;
});

const list = async (path) => (await api('GET', inDefault(path))).items;
/** Starts this many runs of a job that always fails, and waits until they have failed. */
async function failed(name, count, job = {}) {
  await put(name, { overlap: 'allow', task: { shell: 'exit 3' }, ...job });
  for (let each = 0; each < count; each += 1) await start(name);
  await until(async () => (await list(`runs?job=${name}&state=failed`)).length === count);
}

/** Selects the first of this many rows. */
async function selectFirst(page, count) {
  const boxes = page.getByRole('checkbox', { name: 'Select this row' });
  await boxes.nth(count - 1).waitFor();
  await boxes.first().check();
}

const closed = (page) => page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();

test('runs are cancelled in bulk after a preview', async () => {
  await put('herd', { overlap: 'allow', task: { shell: 'sleep 600' } });
  for (let count = 0; count < 4; count += 1) await start('herd');
  await visit({ path: '#/runs?job=herd' }, async (page) => {
    await selectFirst(page, 4);
    await button(page, 'Cancel…').click();
    await inDialog(page, 'Cancel 1 run').click();
    await page.getByText('1 run cancelled or asked to stop.').waitFor();
    await closed(page);

    await page
      .getByRole('group', { name: 'State' })
      .getByRole('link', { name: /^Running/ })
      .click();
    await button(page, 'Cancel all matching…').click();
    await page.getByRole('heading', { name: 'Cancel 3 runs?' }).waitFor();
    await inDialog(page, 'Cancel 3 runs').click();
    await page.getByText('3 runs cancelled or asked to stop.').waitFor();
  });
  const ended = async () => (await api('GET', inDefault('runs?job=herd&state=cancelled'))).items.length === 4;
  await until(ended);
});

test('failed runs are retried in bulk', async () => {
  await failed('relay', 3, { dead_letter: false });
  await visit({ path: '#/runs?job=relay' }, async (page) => {
    await selectFirst(page, 3);
    await button(page, 'Retry…').click();
    await inDialog(page, 'Retry 1 run').click();
    await page.getByText('1 new run started.').waitFor();
    await closed(page);
  });
  const retries = async () => (await list('runs?job=relay&trigger=retry&state=failed')).length;
  await until(async () => (await retries()) === 1);
  await visit({ path: '#/runs?job=relay&state=failed' }, async (page) => {
    await button(page, 'Retry all matching…').click();
    await page.getByRole('heading', { name: 'Retry 4 runs?' }).waitFor();
    await inDialog(page, 'Retry 4 runs').click();
    await page.getByText('4 new runs started.').waitFor();
  });
  await until(async () => (await retries()) === 5);
});

test('dead letters are discarded in bulk', async () => {
  await failed('chaff', 3);
  await failed('grain', 1);
  await until(async () => (await list('dead-letters?job=chaff')).length === 3);
  await visit({ path: '#/dead-letters?job=chaff' }, async (page) => {
    await selectFirst(page, 3);
    await button(page, 'Discard…').click();
    await inDialog(page, 'Discard 1 dead letter').click();
    await page.getByText('1 dead letter discarded.').waitFor();
    await closed(page);
    assert.equal((await list('dead-letters?job=chaff')).length, 2);

    await button(page, 'Discard all of this job…').click();
    await page.getByRole('heading', { name: 'Discard 2 dead letters?' }).waitFor();
    await inDialog(page, 'Discard 2 dead letters').click();
    await page.getByText('2 dead letters discarded.').waitFor();
    await closed(page);
    await page.getByText('No dead letter matches these filters.').waitFor();
  });
  await until(async () => (await list('dead-letters?job=grain')).length === 1);
  assert.equal((await list('runs?job=chaff&state=failed')).length, 3);
});
