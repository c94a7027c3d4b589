// Everything without a mouse.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { cluster, settled, visit } from './scene.mjs';
import { seedPlain } from './seed.mjs';

before(async () => {
  await seedPlain((await cluster()).api);
});

/** Presses Tab until the control has the focus, and checks that the focus is seen. */
async function tabTo(page, control, key = 'Tab') {
  await control.waitFor();
  for (let presses = 0; presses < 150; presses += 1) {
    await page.keyboard.press(key);
    if (await control.evaluate((element) => element === document.activeElement)) {
      const outline = await control.evaluate((element) => getComputedStyle(element).outlineStyle);
      assert.notEqual(outline, 'none', `the focus on ${control} is seen`);
      return;
    }
  }
  assert.fail(`Tab does not reach ${control}`);
}

test('a job is created and run, and its log is read, by keys alone', async () => {
  await visit({}, async (page) => {
    await page.getByRole('heading').first().waitFor();
    await page.keyboard.press('Control+K');
    await page.getByRole('dialog').getByRole('combobox').waitFor();
    await page.keyboard.type('New job');
    await page.getByRole('option', { name: 'New job', selected: true }).waitFor();
    await page.keyboard.press('Enter');

    await tabTo(page, page.getByLabel('Name', { exact: true }));
    await page.keyboard.press('Control+A');
    await page.keyboard.type('by-keys');
    await page.getByRole('status').getByText('Valid', { exact: true }).waitFor();
    await tabTo(page, page.getByRole('button', { name: 'Create the job' }), 'Shift+Tab');
    await page.keyboard.press('Enter');

    await page.getByRole('heading', { name: 'by-keys' }).waitFor();
    await tabTo(page, page.getByRole('button', { name: 'Run now' }));
    await page.keyboard.press('Enter');
    await tabTo(page, page.getByRole('dialog').getByRole('button', { name: 'Run now' }));
    await page.keyboard.press('Enter');
    await page.getByText('Succeeded').first().waitFor();
    const log = page.getByRole('region', { name: 'Output' });
    await tabTo(page, log);
    await log.getByText('hello').waitFor();
  });
});

test('keys open the list of keys, the search, rows and screens', async () => {
  await visit({ path: '#/runs' }, async (page) => {
    const row = page.locator('[role=row].current');
    await page.getByRole('row').nth(3).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('heading', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });

    await page.keyboard.press('/');
    const search = page.getByRole('searchbox', { name: 'Search runs…' });
    assert.equal(await search.evaluate((element) => element === document.activeElement), true);
    await page.keyboard.type('billing');
    await page.waitForURL(/search=billing/);
    await settled(page);
    await page.getByRole('row').nth(2).waitFor();
    await page.keyboard.press('Enter');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    assert.equal(await row.getAttribute('aria-rowindex'), '3');
    await page.keyboard.press('k');
    assert.equal(await row.getAttribute('aria-rowindex'), '2');
    await page.keyboard.press('x');
    assert.equal(await row.getByRole('checkbox').isChecked(), true);
    await page.keyboard.press('Enter');
    await page.waitForURL(/#\/runs\/\d+/);
    await page.keyboard.press('g');
    await page.keyboard.press('q');
    await page.getByRole('heading', { name: 'Queues' }).waitFor();
  });
});
