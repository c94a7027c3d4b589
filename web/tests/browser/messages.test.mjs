// What a user does with messages as a producer of many and as a consumer.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { button, cluster, fits, inDefault, inDialog, visit } from './scene.mjs';

let api, reader;
before(async () => {
  ({ api, reader } = await cluster());
});

const add = (queue, ...messages) =>
  api('POST', inDefault(`queues/${queue}/batch`), {
    messages: messages.map((each) => (typeof each === 'string' ? { body: each } : each)),
  });
const queued = async (queue) => (await api('GET', inDefault(`queues/${queue}/peek?count=100`))).items;
const bodies = async (queue) => (await queued(queue)).map((each) => each.body);
const shown = (id) => api('GET', inDefault(`messages/${encodeURIComponent(id)}`));
const closed = (page) => page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
const row = (page, body) =>
  page.getByRole('row').filter({ has: page.getByRole('link', { name: body, exact: true }) });
/** The check box of the message with this body. */
const box = (page, body) => row(page, body).getByRole('checkbox');

async function take(page, fields = {}) {
  await button(page, 'Take…').click();
  for (const [label, text] of Object.entries(fields))
    await page.getByRole('dialog').getByLabel(label, { exact: true }).fill(text);
  await inDialog(page, 'Take').click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
}

test('messages are taken, and acknowledged, extended, returned and given back', async () => {
  await add('lorries', 'red', 'green', 'blue', 'white');
  await visit({ path: '#/queues/lorries' }, async (page) => {
    await take(page, { 'At most': '3' });
    await page.getByText('3 rows selected').waitFor();
    const rows = page.getByRole('table', { name: 'Messages' }).getByRole('row');
    await rows
      .filter({ hasText: 'in 5 min' })
      .or(rows.filter({ hasText: 'in 4 min' }))
      .first()
      .waitFor();
    assert.deepEqual(await bodies('lorries'), ['white']);

    await button(page, 'Extend…').click();
    await page.getByRole('dialog').getByText('As a command').click();
    await page
      .getByRole('dialog')
      .getByText(/messages\/D-.*\/working/)
      .first()
      .waitFor();
    await inDialog(page, 'Extend · 3 messages').click();
    await page.getByText('3 deliveries extended.').waitFor();
    await closed(page);

    await box(page, 'red').check();
    await button(page, 'Acknowledge…').click();
    await inDialog(page, 'Acknowledge · 1 message').click();
    await page.getByText('1 message acknowledged.').waitFor();
    await closed(page);
    await row(page, 'red').waitFor({ state: 'detached' });

    await box(page, 'green').check();
    await button(page, 'Return uncounted…').click();
    await inDialog(page, 'Return uncounted · 1 message').click();
    await page.getByText('1 message returned.').waitFor();
    await closed(page);

    await page.getByRole('link', { name: 'blue' }).click();
    const panel = page.getByRole('complementary', { name: 'Message' });
    await panel.getByRole('button', { name: 'Give back' }).click();
    await inDialog(page, 'Give back').click();
    await page.getByText('This page holds no message.').waitFor();
    const left = await queued('lorries');
    assert.deepEqual(left.map((each) => [each.body, each.nacks, each.redeliveries]).sort(), [
      ['blue', 1, 0],
      ['green', 0, 0],
      ['white', 0, 0],
    ]);

    await panel.getByRole('button', { name: 'Close' }).click();
    await take(page);
    await page.getByText('1 row selected').waitFor();
    await page.getByRole('table', { name: 'Messages' }).getByRole('link').click();
    await panel.getByRole('button', { name: 'Acknowledge' }).click();
    await inDialog(page, 'Acknowledge').click();
    await page.getByText('This page holds no message.').waitFor();
  });
  assert.equal((await queued('lorries')).length, 2);
});

test('a consumer waits for the first message of several queues', async () => {
  await add('quay-a', 'kept');
  await visit({ path: '#/queues/quay-a', allowed: /404/ }, async (page) => {
    await take(page);
    await button(page, 'Take…').click();
    const dialog = page.getByRole('dialog');
    await inDialog(page, 'Take').click();
    await dialog.getByText('No message is ready.').waitFor();
    await dialog.getByLabel('Wait for the first').fill('30s');
    await dialog.getByLabel('Other queues').fill('quay-b\nquay-c');
    await dialog.getByText('As a command').click();
    await dialog.getByText('punctual queue get quay-a quay-b quay-c --count 1 --wait 30s').waitFor();
    await inDialog(page, 'Take').click();
    await add('quay-c', 'from afar');
    await dialog.waitFor({ state: 'detached' });
    await row(page, 'from afar').getByText('quay-c').waitFor();

    // Each message that cannot be hit says so.
    const { items } = await api('POST', inDefault('queues/quay-a/take'), {});
    assert.deepEqual(items, []);
    await box(page, 'kept').check();
    await box(page, 'from afar').check();
    const held = await page.getByRole('link', { name: 'from afar' }).getAttribute('href');
    const id = new URLSearchParams(held.split('?')[1]).get('message');
    await api('POST', inDefault('messages'), { action: 'ack', ids: [id] });
    await button(page, 'Acknowledge…').click();
    await inDialog(page, 'Acknowledge · 2 messages').click();
    await dialog.getByText('1 message acknowledged.').waitFor();
    await dialog.getByText('1 was refused:').waitFor();
    await dialog.getByText(id).waitFor();
  });
});

test('several ready messages are selected with keys, postponed and deleted', async () => {
  const { items } = await add('stalls', 'one', 'two', 'three');
  await visit({ path: '#/queues/stalls' }, async (page) => {
    await page.getByRole('link', { name: 'three' }).waitFor();
    for (const key of ['j', 'x', 'j', 'x']) await page.keyboard.press(key);
    await page.getByText('2 rows selected').waitFor();
    await button(page, 'Postpone…').click();
    await page.getByRole('heading', { name: 'Postpone 2 messages?' }).waitFor();
    await inDialog(page, 'Postpone · 2 messages').click();
    await page.getByText('2 messages postponed.').waitFor();
    await closed(page);
    await page.getByRole('link', { name: 'two' }).waitFor({ state: 'detached' });

    await page.getByRole('checkbox', { name: 'Select all rows' }).check();
    await button(page, 'Delete…').click();
    await inDialog(page, 'Delete · 1 message').click();
    await page.getByText('1 message deleted.').waitFor();
    await closed(page);
    await page.getByText('No message is ready.').waitFor();
  });
  assert.equal((await shown(items[1].id)).state, 'active');
  await assert.rejects(shown(items[2].id), /404/);
});

test('many messages are added, one per line', async () => {
  await visit({ path: '#/queues/coaches', allowed: /404/ }, async (page) => {
    await button(page, 'Add many…').click();
    const dialog = page.getByRole('dialog');
    assert.equal(await inDialog(page, 'Add 0 messages').isDisabled(), true);
    await dialog.getByLabel('Messages').fill('first\n\nthird\n');
    await dialog.getByText('3 messages, 10 bytes, 1 of them empty.').waitFor();
    await dialog.getByText(/^Delay, retry/).click();
    await dialog.getByLabel('Length limit').fill('2');
    await dialog.getByText('As a command').click();
    await dialog.getByText(/queue add coaches --lines --max-len 2/).waitFor();
    await inDialog(page, 'Add 3 messages').click();
    await dialog.getByText('2 messages added.').waitFor();
    await dialog.getByText('1 was refused:').waitFor();
    await dialog.getByText('Line 3', { exact: true }).waitFor();
    await dialog.getByText('queue_too_long').waitFor();
  });
  assert.deepEqual(await bodies('coaches'), ['first', '']);
});

test('many messages are added as a list, and an error names its line', async () => {
  await visit({ path: '#/queues/wagons', allowed: /404|422/ }, async (page) => {
    await button(page, 'Add many…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Format').selectOption('A JSON or YAML list');
    const text = dialog.getByLabel('Messages');
    await text.fill('[\n  "a",\n  17\n]');
    await dialog.getByText(/^Line 3: /).waitFor();
    await text.fill('[\n  "a",\n  { "body": "b", "delay": "soon" }\n]');
    await inDialog(page, 'Add 2 messages').click();
    await dialog
      .getByRole('alert')
      .getByText(/Line 3: /)
      .waitFor();
    await text.fill(
      '[\n  "a",\n  { "body": "b", "key": "k" },\n  { "body": "c", "key": "k" },\n  { "body_base64": "/w==" }\n]',
    );
    await inDialog(page, 'Add 4 messages').click();
    await dialog.getByText('3 messages added.').waitFor();
    await dialog.getByText('Line 4', { exact: true }).waitFor();
  });
  assert.deepEqual(
    (await queued('wagons')).map((each) => each.body ?? each.body_base64),
    ['a', 'b', '/w=='],
  );
});

test('a message is added from a file, as base64, and only if the queue is short', async () => {
  await visit({ path: '#/queues/crane', allowed: /404|409/ }, async (page) => {
    const dialog = page.getByRole('dialog');
    await button(page, 'Add a message').click();
    await dialog.getByLabel('Kind').selectOption('A file');
    const bytes = Buffer.from([0, 255, 10]);
    await dialog.getByLabel('Choose a file…').setInputFiles({ name: 'a.bin', mimeType: '', buffer: bytes });
    await dialog.getByText('3 bytes').waitFor();
    await dialog.getByText('As a command').click();
    await dialog.getByText('punctual queue add crane --exact < a.bin').waitFor();
    await inDialog(page, 'Add the message').click();
    await dialog.waitFor({ state: 'detached' });

    await button(page, 'Add a message').click();
    await dialog.getByLabel('Kind').selectOption('Base64');
    await dialog.getByLabel('Body', { exact: true }).fill('AAE');
    await dialog.getByText('This is not base64.').waitFor();
    assert.equal(await inDialog(page, 'Add the message').isDisabled(), true);
    await dialog.getByLabel('Body', { exact: true }).fill('/w==\n');
    await dialog.getByText(/^Delay, retry/).click();
    await dialog.getByLabel('Length limit').fill('1');
    await inDialog(page, 'Add the message').click();
    await dialog.getByText('queue_too_long').waitFor();
    await dialog.getByLabel('Length limit').fill('2');
    await inDialog(page, 'Add the message').click();
    await dialog.waitFor({ state: 'detached' });
  });
  assert.deepEqual(
    (await queued('crane')).map((each) => each.body_base64),
    ['AP8K', '/w=='],
  );
});

test('the dialogs fit into a narrow window in both languages, and a reader sees no action', async () => {
  await add('barge', 'x'.repeat(300), 'y');
  for (const [lang, words] of Object.entries({
    en: ['Take…', 'Add many…', 'Taken here'],
    zh: ['取消息…', '批量添加…', '本页已取走'],
  }))
    await visit({ path: '#/queues/barge', width: 390, lang, theme: 'dark' }, async (page) => {
      await page.getByRole('checkbox').first().check();
      await fits(page, `the list, ${lang}`);
      for (const word of words.slice(0, 2)) {
        await button(page, word).click();
        await page.getByRole('dialog').locator('textarea').first().waitFor();
        await fits(page, `${word}, ${lang}`);
        await page.keyboard.press('Escape');
      }
      await page.getByRole('link', { name: words[2] }).click();
      await fits(page, `${words[2]}, ${lang}`);
    });
  await visit({ path: '#/queues/barge?order=taken', token: reader }, async (page) => {
    await page.getByRole('link', { name: 'xxx' }).waitFor();
    assert.equal(await page.getByRole('checkbox').count(), 0);
    for (const name of ['Take…', 'Add many…']) assert.equal(await button(page, name).count(), 0, name);
    assert.equal(await page.getByRole('link', { name: 'Taken here' }).count(), 0);
  });
});
