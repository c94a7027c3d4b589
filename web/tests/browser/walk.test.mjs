// The first minutes: `punctual dev` without a token, from an empty server to a first run.
import { test } from 'node:test';
import { dev, visit } from './scene.mjs';

test('from an empty server to a first run by clicks alone', async () => {
  const { address: at } = await dev();
  await visit({ at, token: null }, async (page) => {
    await page.getByRole('link', { name: 'Jobs' }).first().click();
    await page.getByRole('button', { name: 'Create the job hello' }).click();
    await page.getByRole('heading', { name: 'hello' }).waitFor();
    await page.getByRole('button', { name: 'Run now' }).click();
    await page.getByRole('dialog').getByRole('button', { name: /^Run/ }).click();
    await page.getByRole('link', { name: 'Runs' }).first().click();
    await page.getByText('Succeeded').nth(1).waitFor();
    await page.getByRole('link', { name: 'hello' }).first().click();
    await page.getByText('hello', { exact: true }).last().waitFor();
  });
});
