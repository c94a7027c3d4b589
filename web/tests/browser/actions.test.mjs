// What a user does with jobs, runs, dead letters and queues, by clicks.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { button, cluster, inDefault, inDialog, put, start, state, visit } from './scene.mjs';
import { until } from './servers.mjs';

let api, folder;
before(async () => {
  api = (await cluster()).api;
  folder = await mkdtemp(join(tmpdir(), 'punctual-browser-'));
});
after(() => rm(folder, { recursive: true, force: true }));

/** A file that a task waits for, so that the test decides when the task goes on. */
const signal = (name) => join(folder, name);
const send = (name) => writeFile(signal(name), '');
const wait = (name) => `while [ ! -e '${signal(name)}' ]; do sleep 0.1; done`;

test('a job is created with the form', async () => {
  await visit({ path: '#/jobs' }, async (page) => {
    await page.getByRole('link', { name: 'New job' }).click();
    await page.getByLabel('Name', { exact: true }).fill('ledger');
    await page.getByLabel('Description').fill('Closes the ledger.');
    await page
      .getByRole('group', { name: 'Labels', exact: true })
      .getByRole('button', { name: 'Add' })
      .click();
    await page.getByLabel('Labels: name').fill('team');
    await page.getByLabel('Labels: value').fill('billing');
    await page.getByLabel('Kind').first().selectOption({ label: 'Cron' });
    await page.getByLabel('Cron expression').fill('0 3 * * MON');
    await page.getByText('Mondays').or(page.getByText('Monday')).first().waitFor();
    await page.getByLabel('Shell command').fill('echo closed');
    await page.getByRole('status').getByText('Valid', { exact: true }).waitFor();
    await button(page, 'Create the job').click();
    await page.getByRole('heading', { name: 'ledger', exact: true }).waitFor();
    await page.getByText('Closes the ledger.').waitFor();
  });
  const job = await api('GET', inDefault('jobs/ledger'));
  assert.deepEqual(job.labels, { team: 'billing' });
  assert.deepEqual(job.task, { shell: 'echo closed' });
  assert.equal(job.schedule.cron ?? job.schedule[0].cron, '0 3 * * MON');
});

test('a job is edited with the form and as YAML', async () => {
  await put('audit', { description: 'first', task: { shell: 'echo audit' } });
  await visit({ path: '#/jobs/audit', allowed: /422/ }, async (page) => {
    await page.getByRole('link', { name: 'Edit' }).click();
    await page.getByLabel('Description').fill('by form');
    await button(page, 'Save').click();
    await page.getByText('by form').waitFor();

    await page.getByRole('link', { name: 'Edit' }).click();
    const yaml = page.getByRole('textbox', { name: 'YAML' });
    await yaml.click();
    await page.keyboard.press('Control+End');
    await page.keyboard.insertText('\ntimeout: soon\n');
    const problem = page
      .getByRole('list', { name: 'Problems' })
      .getByRole('listitem')
      .filter({ hasText: 'soon' });
    await problem.getByRole('button', { name: /^Line \d+$/ }).waitFor();
    assert.equal(await button(page, 'Save').isDisabled(), true);
    await yaml.click();
    await page.keyboard.press('Control+Z');
    await page.keyboard.press('Control+End');
    await page.keyboard.insertText('\ntimeout: 5m\n');
    await page.getByRole('status').getByText('Valid', { exact: true }).waitFor();
    await button(page, 'Save').click();
    await page.getByText('Revision 3').waitFor();
  });
  const { description, timeout } = await api('GET', inDefault('jobs/audit'));
  assert.deepEqual({ description, timeout }, { description: 'by form', timeout: '5m' });
});

test('a run gets parameters, its log grows while it runs, and it is cancelled', async () => {
  const shell = `echo "$PUNCTUAL_PARAMS"; ${wait('grow')}; echo grown; ${wait('never')}`;
  await put('slow', { params: { who: 'nobody' }, task: { shell } });
  await visit({ path: '#/jobs/slow', allowed: /40[04]|422/ }, async (page) => {
    await button(page, 'Run now').click();
    await page.getByLabel('Parameters (a JSON object)').fill('{ "who": "me" }');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Due').selectOption('After a delay');
    await dialog.getByLabel('Delay', { exact: true }).fill('soon');
    await inDialog(page, 'Run now').click();
    await dialog.locator('input[aria-invalid=true]').waitFor();
    await dialog.getByLabel('Delay', { exact: true }).fill('1s');
    await dialog.getByLabel('Key (optional)').fill('slow-1');
    await dialog.getByText('As a command').click();
    await dialog.getByText(/job run slow .*--delay 1s --key slow-1/).waitFor();
    await inDialog(page, 'Run now').click();
    const log = page.getByRole('region', { name: 'Output' });
    await log.getByText('{"who":"me"}').waitFor();
    await state(page, 'Running');
    assert.equal(await log.getByText('grown').count(), 0);
    await send('grow');
    await log.getByText('grown').waitFor();
    await state(page, 'Running');

    const run = page.url();
    await page.getByRole('link', { name: 'Workers' }).first().click();
    await page.getByText('worker-2').first().waitFor();
    await page.locator('main').getByRole('link', { name: /slow/ }).first().waitFor();
    await page.goto(run);
    await button(page, 'Cancel').click();
    await inDialog(page, 'Cancel').click();
    await state(page, 'Cancelled');
  });
});

test('a run at work shows its progress, is moved with its checkpoint, and is killed', async () => {
  const report = JSON.stringify({ percent: 40, message: 'row 40 of 100', checkpoint: { row: 40 } });
  // The second attempt does not stop when it is asked to.
  const stubborn = `if [ -n "$PUNCTUAL_CHECKPOINT" ]; then cat "$PUNCTUAL_CHECKPOINT"; trap '' TERM; fi`;
  const shell = `${stubborn}; echo '${report}' > "$PUNCTUAL_REPORT"; ${wait('never')}`;
  await put('settle', { grace: '10m', task: { shell } });
  const { id } = await start('settle');
  await visit({ path: '#/runs?job=settle' }, async (page) => {
    await page.getByRole('table').getByText('40 %').waitFor();
    await page.getByRole('table').getByText('row 40 of 100').waitFor();
    await page.goto(page.url().replace(/#.*/, `#/runs/${id}`));
    await page.getByText('Checkpoint of attempt 1').click();
    await page.getByText('"row": 40').waitFor();
    await page.getByRole('img', { name: 'checkpoint' }).waitFor();
    await button(page, 'Move…').click();
    await inDialog(page, 'Move the run').click();
    await page.getByRole('region', { name: 'Output' }).getByText('{"row":40}').waitFor();
    await page.getByRole('region', { name: 'Attempts' }).getByText('Moved').waitFor();
    await button(page, 'Cancel').click();
    await page.getByLabel(/Kill it now/).check();
    await inDialog(page, 'Cancel').click();
    await state(page, 'Cancelled');
  });
});

test('a worker is drained and resumed', async () => {
  await visit({ path: '#/workers' }, async (page) => {
    const tile = page.getByRole('listitem').filter({ hasText: 'worker-1' }).first();
    await tile.getByRole('button', { name: 'Drain' }).click();
    await inDialog(page, 'Drain').click();
    await tile.getByText('Draining').waitFor();
    await tile.getByRole('button', { name: 'Resume' }).click();
    await inDialog(page, 'Resume').click();
    await tile.getByText('Draining').waitFor({ state: 'detached' });
  });
});

test('a failed run is retried', async () => {
  await put('flaky', { task: { shell: `test -e '${signal('repaired')}'` }, dead_letter: false });
  const { id } = await start('flaky');
  await visit({ path: `#/runs/${id}` }, async (page) => {
    await state(page, 'Failed');
    await send('repaired');
    await button(page, 'Retry').click();
    await inDialog(page, 'Retry').click();
    await page.getByText('Retry of').waitFor();
    await state(page, 'Succeeded');
  });
});

test('a dead letter is replayed with other parameters', async () => {
  await put('fragile', { params: { ok: 'no' }, task: { shell: 'echo "$PUNCTUAL_PARAMS" | grep yes' } });
  const { id } = await start('fragile');
  const letters = async () => (await api('GET', inDefault('dead-letters?job=fragile'))).items;
  await until(async () => (await letters()).length === 1);
  await visit({ path: '#/dead-letters' }, async (page) => {
    await page.getByRole('table').getByRole('link', { name: 'fragile' }).click();
    const panel = page.getByRole('complementary');
    await panel.getByText(id).waitFor();
    await panel.getByRole('button', { name: 'Replay…' }).click();
    await page.getByRole('dialog').getByLabel('Parameters').fill('{ "ok": "yes" }');
    await inDialog(page, 'Replay').click();
    await state(page, 'Succeeded');
  });
  assert.deepEqual(await letters(), []);
});

test('messages are added, looked at, deleted and flushed', async () => {
  await visit({ path: '#/queues' }, async (page) => {
    await button(page, 'Add a message').click();
    await page.getByRole('dialog').getByLabel('Queue').fill('parcels');
    await page.getByRole('dialog').getByLabel('Body').fill('{"parcel":17}');
    await inDialog(page, 'Add the message').click();
    await page.getByRole('link', { name: 'parcels' }).click();
    await page.getByRole('link', { name: /"parcel":17/ }).click();
    const panel = page.getByRole('complementary', { name: 'Message' });
    await panel.getByText('"parcel": 17').waitFor();
    await panel.getByRole('button', { name: 'Delete' }).click();
    await inDialog(page, 'Delete').click();
    await panel.waitFor({ state: 'detached' });
    await page.getByText('No message is ready.').waitFor();

    await api('POST', inDefault('queues/parcels/messages'), { body: '{"parcel":18}' });
    await page.getByRole('link', { name: /"parcel":18/ }).waitFor();
    await button(page, 'Flush…').click();
    await page.getByRole('heading', { name: 'Delete 1 message of parcels?' }).waitFor();
    assert.equal(await inDialog(page, 'Delete the messages').isDisabled(), true);
    await page.getByLabel('Type parcels to confirm.').fill('parcels');
    await inDialog(page, 'Delete the messages').click();
    await page.getByText('No message is ready.').waitFor();
  });
});

test('a message is found by its id, delivered now, postponed, given back and acknowledged', async () => {
  const { id } = await api('POST', inDefault('queues/crates/messages'), { body: 'late', delay: '1h' });
  const shown = () => api('GET', inDefault(`messages/${encodeURIComponent(id)}`));
  await visit({ path: '#/queues/crates', allowed: /404/ }, async (page) => {
    await page.getByLabel('A message by its id').fill(id);
    await button(page, 'Show').click();
    const panel = page.getByRole('complementary', { name: 'Message' });
    await panel.getByText('Delayed or taken').waitFor();
    const act = async (name) => {
      await panel.getByRole('button', { name, exact: true }).click();
      await inDialog(page, name).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    };
    await act('Deliver now');
    await panel.getByText('Ready', { exact: true }).waitFor();
    await act('Postpone');
    await panel.getByText('Delayed or taken').waitFor();
    await act('Deliver now');
    await panel.getByText('Ready', { exact: true }).waitFor();
    await api('POST', inDefault('queues/crates/take'), {});
    await panel.getByRole('button', { name: 'Give back' }).click();
    await page.getByRole('dialog').getByLabel('Delay').fill('1h');
    await inDialog(page, 'Give back').click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.equal((await shown()).nacks, 1);
    await act('Acknowledge');
    await panel.waitFor({ state: 'detached' });
  });
  await assert.rejects(shown, /404/);
});

test('a queue is paused in one direction and resumed', async () => {
  await api('POST', inDefault('queues/letters/messages'), { body: 'first' });
  const taken = async () => (await api('POST', inDefault('queues/letters/take'), {})).items.length;
  await visit({ path: '#/queues/letters' }, async (page) => {
    const title = page.locator('main .title-row');
    await button(page, 'Pause…').click();
    await page.getByRole('radio', { name: /^Out/ }).check();
    await inDialog(page, 'Pause').click();
    await title.getByText('Paused: out').waitFor();
    assert.equal(await taken(), 0);
    await api('POST', inDefault('queues/letters/messages'), { body: 'second' });

    await button(page, 'Resume').click();
    await inDialog(page, 'Resume').click();
    await title.getByText('Paused').waitFor({ state: 'detached' });
    assert.equal(await taken(), 1);
  });
});

test('a job is paused, resumed, taken back to an old revision and deleted', async () => {
  for (const description of ['first', 'second'])
    await put('ferry', { description, schedule: { every: '1h' }, task: { noop: {} } });
  // The page may read the job once more while it is deleted.
  await visit({ path: '#/jobs/ferry', allowed: /404.*jobs\/ferry/ }, async (page) => {
    const title = page.locator('main .title-row');
    await button(page, 'Pause').click();
    await inDialog(page, 'Pause').click();
    await title.getByText('Paused').waitFor();
    await button(page, 'Resume').click();
    await inDialog(page, 'Resume').click();
    await title.getByText('Active').waitFor();

    await page.getByRole('link', { name: 'Revisions', exact: true }).click();
    await page
      .getByRole('listitem')
      .getByRole('link', { name: /^Revision 1\b/ })
      .click();
    await button(page, 'Go back to revision 1').click();
    await inDialog(page, 'Go back to revision 1').click();
    await page.locator('main header').getByText('first', { exact: true }).waitFor();

    await button(page, 'Delete').click();
    await page.getByLabel('Type ferry to confirm.').fill('ferry');
    await inDialog(page, 'Delete').click();
    await page.getByRole('heading', { name: 'Jobs' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'ferry' }).count(), 0);
  });
});

test('a job is paused with a reason and an end, and the lists say so', async () => {
  await put('bank', { schedule: { every: '1h' }, task: { noop: {} } });
  const day = (days) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
  await visit({ path: '#/jobs/bank', allowed: /422/ }, async (page) => {
    await button(page, 'Pause').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Reason (optional)').fill('the bank is closed');
    const until = dialog.getByLabel('Until (optional)');
    await until.fill(`${day(-2)}T06:00`);
    await inDialog(page, 'Pause').click();
    await dialog.getByText('Is in the past.').waitFor();
    assert.equal(await until.evaluate((element) => element === document.activeElement), true);
    assert.equal(await dialog.getByRole('alert').count(), 0);
    await until.fill(`${day(20)}T06:00`);
    await dialog.getByText('As a command').click();
    await dialog.getByText(/job pause bank --reason 'the bank is closed' --until \d{4}-/).waitFor();
    await dialog.getByText(/"reason":"the bank is closed","until":"\d{4}-/).waitFor();
    await inDialog(page, 'Pause').click();

    const notice = page.getByRole('region', { name: 'Paused' });
    await notice.getByText('the bank is closed').waitFor();
    await notice.getByText('It is resumed by itself on').waitFor();
    await notice.getByRole('button', { name: 'Edit the pause…' }).click();
    await dialog.getByLabel('Reason (optional)').fill('the bank moves');
    await inDialog(page, 'Save').click();
    await notice.getByText('the bank moves').waitFor();

    await page.goto(page.url().replace(/#.*/, '#/jobs?search=bank'));
    await page
      .getByRole('row')
      .filter({ hasText: 'bank' })
      .getByText(/^by .* · until .* · the bank moves · since /)
      .waitFor();
  });
  const { pause } = await api('GET', inDefault('jobs/bank'));
  assert.equal(pause.reason, 'the bank moves');
  assert.equal(pause.until.slice(0, 10), new Date(`${day(20)}T06:00`).toISOString().slice(0, 10));
});

test('an event is sent from the job that listens to it and from the palette', async () => {
  const task = { shell: 'echo "$PUNCTUAL_PARAMS"' };
  await put('receipt', { schedule: { event: { name: 'order-paid' } }, task });
  await visit({ path: '#/jobs/receipt', allowed: /40[04]|422/ }, async (page) => {
    const dialog = page.getByRole('dialog');
    await button(page, 'Send an event').click();
    assert.equal(await dialog.getByLabel('Event').inputValue(), 'order-paid');
    await dialog.getByLabel(/^Parameters/).fill('{ "amount": ');
    await dialog.getByText('This is not a JSON object.').waitFor();
    assert.equal(await inDialog(page, 'Send the event').isDisabled(), true);
    await dialog.getByLabel(/^Parameters/).fill('{ "amount": 120 }');
    const key = dialog.getByLabel('Key (optional)');
    await key.fill('k'.repeat(257));
    await inDialog(page, 'Send the event').click();
    await dialog.getByText('1 to 256 bytes, no control characters.').waitFor();
    assert.equal(await key.evaluate((element) => element === document.activeElement), true);
    await key.fill('order-7');
    await dialog.getByText('As a command').click();
    await dialog.getByText(`event send order-paid --key order-7 --params '{"amount":120}'`).waitFor();
    await inDialog(page, 'Send the event').click();
    await dialog.getByRole('heading', { name: 'Event order-paid is stored' }).waitFor();
    const { id } = await api('POST', inDefault('events/order-paid'), { key: 'order-7' });
    await dialog.getByText(id, { exact: true }).waitFor();
    await dialog.getByRole('link', { name: 'Runs that events started' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('table').getByRole('link', { name: 'receipt' }).click();
    await page.getByRole('region', { name: 'Output' }).getByText('"amount":120').waitFor();

    await page.keyboard.press('Control+K');
    await page.getByRole('dialog').getByRole('combobox').waitFor();
    await page.keyboard.type('Send an event');
    await page.getByRole('option', { name: 'Send an event', selected: true }).waitFor();
    await page.keyboard.press('Enter');
    await dialog.getByLabel('Event').fill('a b');
    await inDialog(page, 'Send the event').click();
    await dialog.locator('[aria-invalid=true]').waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });
});

test('a run without a job is submitted', async () => {
  await visit({ path: '#/runs', allowed: /40[04]|422/ }, async (page) => {
    const dialog = page.getByRole('dialog');
    await button(page, 'Submit a run').waitFor();
    await page.keyboard.press('s');
    const text = dialog.getByRole('textbox', { name: 'Run, as YAML or JSON' });
    const write = async (written) => {
      await text.click();
      await page.keyboard.press('Control+A');
      await page.keyboard.press('Delete'); // else Chromium keeps the style of what was there
      await page.keyboard.insertText(written);
    };
    await write('task: [');
    await dialog.getByRole('alert').getByText('Line 1 ').waitFor();
    assert.equal(await inDialog(page, 'Submit the run').isDisabled(), true);
    await write('task:\n  shell: ""\n');
    await inDialog(page, 'Submit the run').click();
    await dialog.getByRole('alert').getByText('Line 2 ').waitFor();

    await write('{ "task": { "shell": "echo \\"$PUNCTUAL_PARAMS\\"" }, "timeout": "5m" }');
    await dialog.getByLabel(/^Parameters/).fill('{ "customer": "no 17" }');
    await dialog.getByLabel('Due').selectOption('After a delay');
    const delay = dialog.getByLabel('Delay', { exact: true });
    await delay.fill('soon');
    await dialog.getByLabel('Priority').fill('9');
    await dialog.getByLabel('Key (optional)').fill('parcel-99');
    await inDialog(page, 'Submit the run').click();
    await dialog.locator('input[aria-invalid=true]').waitFor();
    assert.equal(await delay.evaluate((element) => element === document.activeElement), true);
    await delay.fill('1s');
    await dialog.getByText('As a command').click();
    await dialog
      .getByText(/run submit --shell .* --timeout 5m --params .* --delay 1s --key parcel-99 --priority 9/)
      .waitFor();
    await inDialog(page, 'Submit the run').click();
    await page.waitForURL(/#\/runs\/\d+/);
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('region', { name: 'Output' }).getByText('{"customer":"no 17"}').waitFor();

    await page.keyboard.press('Control+K');
    await page.getByRole('dialog').getByRole('combobox').waitFor();
    await page.keyboard.type('Submit a run');
    await page.getByRole('option', { name: 'Submit a run', selected: true }).waitFor();
    await page.keyboard.press('Enter');
    await write('task:\n  http:\n    url: http://localhost\n');
    await dialog.getByText('As a command').click();
    await dialog.getByText('The program punctual has no command for this.').waitFor();
  });
});

test('a calendar is created, edited and deleted', async () => {
  const rules = async () => {
    const { weekly, exclude } = await api('GET', inDefault('calendars/workdays'));
    return { weekly, exclude };
  };
  await visit({ path: '#/calendars', allowed: /404/ }, async (page) => {
    await button(page, 'New calendar').click();
    await page.getByRole('dialog').getByLabel('Name').fill('workdays');
    await page.getByLabel('Excluded days (holidays)').fill('12-25\n12-26');
    await inDialog(page, 'Save').click();
    await page.getByRole('heading', { name: 'workdays' }).waitFor();
    const weekly = ['mon', 'tue', 'wed', 'thu', 'fri'];
    assert.deepEqual(await rules(), { weekly, exclude: ['12-25', '12-26'] });

    await page.goto(page.url() + '?year=2027'); // 261 weekdays; 25 and 26 December are on a weekend
    await page.getByText('261 days in', { exact: true }).waitFor();
    await button(page, 'Edit').click();
    const excluded = page.getByLabel('Excluded days (holidays)');
    await excluded.fill('2027-02-30');
    await page.getByText('there is no such day').waitFor();
    await excluded.fill('2027-02-01..2027-02-05');
    await page.getByRole('checkbox', { name: 'Fri' }).uncheck();
    await inDialog(page, 'Save').click();
    await page.getByText('204 days in', { exact: true }).waitFor();
    weekly.pop();
    assert.deepEqual(await rules(), { weekly, exclude: ['2027-02-01..2027-02-05'] });

    await button(page, 'Delete…').click();
    await page.getByLabel('Type workdays to confirm.').fill('workdays');
    await inDialog(page, 'Delete').click();
    await page.getByRole('heading', { name: 'Business days' }).waitFor();
    await page.getByRole('link', { name: 'workdays' }).waitFor({ state: 'detached' });
  });
  await assert.rejects(rules, /404/);
});

test('a token is created, shown once and removed', async () => {
  await visit({ path: '#/tokens' }, async (page) => {
    await button(page, 'New token').click();
    await page.getByRole('dialog').getByLabel('Name').fill('dashboards');
    await inDialog(page, 'Create the token').click();
    await page
      .getByRole('dialog')
      .getByText(/^pct_[0-9a-f]{64}$/)
      .waitFor();
    await inDialog(page, 'I have copied it').click();
    const row = page.getByRole('row').filter({ hasText: 'dashboards' });
    await row.getByRole('button', { name: 'Remove' }).click();
    await page.getByLabel('Type dashboards to confirm.').fill('dashboards');
    await inDialog(page, 'Remove').click();
    await row.waitFor({ state: 'detached' });
  });
});

test('a log is downloaded as a file', async () => {
  await put('wordy', { task: { shell: 'echo "<b>word</b>"' } });
  const { id } = await start('wordy');
  await visit({ path: `#/runs/${id}` }, async (page) => {
    await state(page, 'Succeeded');
    const downloaded = page.waitForEvent('download');
    await button(page, 'Download the log').click();
    const file = await downloaded;
    assert.equal(file.suggestedFilename(), `run-${id}.log`);
    assert.equal(await readFile(await file.path(), 'utf8'), '<b>word</b>\n');
  });
});

test('a worker that is killed is listed as lost', async () => {
  const { startWorker } = await cluster();
  const worker = await startWorker('worker-3');
  await visit({ path: '#/workers' }, async (page) => {
    await page.getByRole('heading', { name: /^3 workers/ }).waitFor();
    await worker.end('SIGKILL');
    await page.getByRole('heading', { name: /^2 workers/ }).waitFor();
    await page.getByText('1 lost', { exact: true }).waitFor();
  });
});
