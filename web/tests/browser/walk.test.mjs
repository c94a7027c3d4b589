// The first minutes: `punctual dev` without a token, from an empty server to a first run.
import { test } from 'node:test';
import { dev, state, visit } from './scene.mjs';

test('from an empty server to a first scheduled run by clicks alone', async () => {
  const { address: at } = await dev();
  await visit({ at, token: null }, async (page) => {
    await page.getByRole('link', { name: 'Jobs' }).first().click();
    await page.getByRole('button', { name: 'Create the job hello' }).click();
    await page.getByRole('heading', { name: 'hello' }).waitFor();
    await page.getByRole('link', { name: 'Runs' }).first().click();
    const scheduled = page.getByRole('row').filter({ hasText: 'Schedule' }).filter({ hasText: 'Succeeded' });
    await scheduled.first().getByRole('link', { name: 'hello' }).click();
    await state(page, 'Succeeded');
    await page.getByRole('region', { name: 'Output' }).getByText('hello', { exact: true }).waitFor();
  });
});
