// The log and the skipped due times of a job, the export of the history, and the metrics of a node.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { before, test } from 'node:test';
import { button, cluster, go, inDefault, inDialog, put, start, visit } from './scene.mjs';
import { until } from './servers.mjs';

let api, reader;
before(async () => {
  ({ api, reader } = await cluster());
});

const ended = (id) => until(async () => (await api('GET', inDefault(`runs/${id}`))).finished_at);

test('the log of a job shows commands, outputs and errors, and is filtered by state', async () => {
  await put('diary', {
    params: { fails: false },
    task: { shell: 'case "$PUNCTUAL_PARAMS" in *true*) echo lost; exit 3;; *) echo kept;; esac' },
  });
  for (const fails of [false, true]) await ended((await start('diary', { params: { fails } })).id);
  await visit({ token: reader, path: '#/jobs/diary' }, async (page) => {
    await page.getByRole('link', { name: 'Log', exact: true }).click();
    const records = page.getByRole('list', { name: 'Log' }).getByRole('listitem');
    await records.nth(1).waitFor();
    await records.nth(0).getByText('lost', { exact: true }).waitFor(); // the newest first
    await records.nth(0).getByText('exit').first().waitFor();
    await records.nth(1).getByText('kept', { exact: true }).waitFor();
    await page.getByRole('group', { name: 'State' }).getByRole('link', { name: 'Succeeded' }).click();
    await page.waitForURL(/state=succeeded/);
    await records.nth(1).waitFor({ state: 'detached' });
    await records.nth(0).getByRole('link', { name: 'Succeeded' }).click();
    await page.waitForURL(/#\/runs\/\d+/);
  });
});

test('the due times of a pause are listed as skipped, with the reason', async () => {
  await put('rested', { schedule: { every: '1s' }, task: { noop: {} } });
  await api('POST', inDefault('jobs/rested/pause'));
  await new Promise((later) => setTimeout(later, 2_000)); // at least one due time is in the pause
  await api('POST', inDefault('jobs/rested/resume'));
  await put('rested', { task: { noop: {} } });
  await visit({ token: reader, path: '#/jobs/rested' }, async (page) => {
    await page.getByRole('link', { name: 'Skipped times' }).click();
    const table = page.getByRole('table', { name: 'Skipped times' });
    await table.getByText('the job was paused').first().waitFor();
    await page.getByText('As a command').click();
    await page.getByText('punctual job skips rested').waitFor();
  });
});

test('the history is downloaded, limited to a time', async () => {
  await put('exported', { task: { noop: {} } });
  const { id } = await start('exported');
  await ended(id);
  const exported = async (page) => {
    const downloaded = page.waitForEvent('download');
    await inDialog(page, 'Download').click();
    const file = await downloaded;
    assert.equal(file.suggestedFilename(), 'history.ndjson');
    const lines = (await readFile(await file.path(), 'utf8')).trim().split('\n');
    return lines.map((line) => JSON.parse(line));
  };
  await visit({ token: reader, path: '#/runs' }, async (page) => {
    await button(page, 'Export the history…').click();
    const all = await exported(page);
    assert.ok(all.some((line) => line.type === 'run' && line.id === id));
    assert.equal(all.at(-1).type, 'stats');
    await page.getByRole('dialog').waitFor({ state: 'detached' });

    // The dialog begins with the times of the list.
    await go(page, '#/runs?until=2020-01-01T00:00:00Z');
    await page.keyboard.press('Control+K');
    await page.getByRole('dialog').getByRole('combobox').fill('Export');
    await page.getByRole('option', { name: 'Export the history' }).click();
    await page.getByLabel('Due from (optional)').fill('2021-01-01T00:00');
    await page.getByText('The end is before the beginning.').waitFor();
    assert.equal(await inDialog(page, 'Download').isDisabled(), true);
    await page.getByLabel('Due from (optional)').fill('2019-01-01T00:00');
    await page.getByRole('dialog').getByText('As a command').click();
    await page.getByText(/export\/history\?from=2019-.*to=20.* > history\.ndjson/).waitFor();
    const old = await exported(page);
    assert.equal(old.filter((line) => line.type === 'run').length, 0);
    assert.ok(old.some((line) => line.type === 'job'));
  });
});

test('the metrics of a node are searched and downloaded', async () => {
  await visit({ token: reader, path: '#/workers' }, async (page) => {
    await page.getByRole('link', { name: 'Metrics' }).click();
    await page.getByRole('heading', { name: 'Metrics of node-1' }).waitFor();
    await page.getByRole('searchbox', { name: 'Search metrics…' }).fill('punctual_runs_ended');
    await page.waitForURL(/search=punctual_runs_ended/);
    await page
      .getByRole('list', { name: 'Metrics' })
      .getByText(/^punctual_runs_ended_total\{/)
      .waitFor();
    const downloaded = page.waitForEvent('download');
    await button(page, 'Download').click();
    const file = await downloaded;
    assert.equal(file.suggestedFilename(), 'metrics-node-1.txt');
    assert.match(await readFile(await file.path(), 'utf8'), /# EOF\n$/);
  });
});
