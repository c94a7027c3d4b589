// What a user does with gRPC schemas, by clicks.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { before, test } from 'node:test';
import { descriptorSet } from './descriptor-set.mjs';
import { button, cluster, inDefault, inDialog, visit } from './scene.mjs';

let api;
before(async () => {
  api = (await cluster()).api;
});
const fileOf = (set, name = 'shop orders.binpb') => ({ name, mimeType: '', buffer: set });

test('a schema is stored from a file, shown, replaced, downloaded and deleted', async () => {
  const read = () => api('GET', inDefault('descriptors/shop'));
  await visit({ path: '#/descriptors', allowed: /404|422/ }, async (page) => {
    await button(page, 'Store a schema').click();
    const dialog = page.getByRole('dialog');
    const file = dialog.getByLabel('Descriptor set (.binpb)');
    await file.setInputFiles(fileOf(Buffer.alloc(1024 * 1024 + 1)));
    await dialog.getByText('A descriptor set has at most 1 MiB.').waitFor();
    assert.equal(await inDialog(page, 'Store a schema').isDisabled(), true);
    assert.equal(await dialog.getByLabel('Name').inputValue(), 'shop-orders');
    await dialog.getByLabel('Name').fill('shop');
    await file.setInputFiles(fileOf(Buffer.from('no schema')));
    await inDialog(page, 'Store a schema').click();
    await dialog.locator('input[aria-invalid=true]').waitFor();
    await file.setInputFiles(fileOf(descriptorSet()));
    await dialog.getByText('As a command').click();
    await dialog.getByText("punctual descriptor apply shop 'shop orders.binpb'").waitFor();
    await inDialog(page, 'Store a schema').click();

    await page.getByRole('heading', { name: 'orders.v1.Orders' }).waitFor();
    const methods = page.getByRole('list', { name: 'Methods that a job can call' });
    await methods.getByText('Settle', { exact: true }).waitFor();
    assert.equal(await methods.getByText('Watch').count(), 0); // a streaming method
    await page.getByText('method: orders.v1.Orders/Settle').waitFor();

    const { version } = await read();
    await button(page, 'Replace…').click();
    await file.setInputFiles(fileOf(descriptorSet(['Settle', 'Import'])));
    await inDialog(page, 'Replace').click();
    await methods.getByText('Import', { exact: true }).waitFor();

    const downloaded = page.waitForEvent('download');
    await button(page, 'Download').click();
    const saved = await downloaded;
    assert.equal(saved.suggestedFilename(), 'shop.binpb');
    assert.deepEqual(await readFile(await saved.path()), descriptorSet(['Settle', 'Import']));

    await page.getByRole('navigation', { name: 'Path' }).getByRole('link', { name: 'gRPC schemas' }).click();
    await page.getByRole('link', { name: 'shop', exact: true }).click();
    assert.ok((await read()).version > version);
    await button(page, 'Delete…').click();
    await page.getByLabel('Type shop to confirm.').fill('shop');
    await inDialog(page, 'Delete').click();
    await page.getByRole('heading', { name: 'gRPC schemas' }).waitFor();
    await page.getByRole('link', { name: 'shop', exact: true }).waitFor({ state: 'detached' });
  });
  await assert.rejects(read, /404/);
});

test('a name that is taken is refused, and the schema stays', async () => {
  const set_base64 = descriptorSet().toString('base64');
  const { version } = await api('PUT', inDefault('descriptors/taken'), { set_base64 });
  await visit({ path: '#/descriptors', allowed: /409/ }, async (page) => {
    await button(page, 'Store a schema').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Descriptor set (.binpb)').setInputFiles(fileOf(descriptorSet(['Other'])));
    await dialog.getByLabel('Name').fill('taken');
    await inDialog(page, 'Store a schema').click();
    await dialog.getByRole('alert').getByText('descriptor_exists').waitFor();
  });
  assert.equal((await api('GET', inDefault('descriptors/taken'))).version, version);
});
