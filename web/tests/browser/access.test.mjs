// Signing in, and what a token that may only read does not see.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { cluster, go, visit } from './scene.mjs';
import { seedPlain } from './seed.mjs';

let screens, reader;
before(async () => {
  const scene = await cluster();
  ({ reader } = scene);
  screens = await seedPlain(scene.api);
});

test('a wrong token is refused with words, a valid one signs in for the tab', async () => {
  await visit({ path: '#/jobs', token: null, allowed: /401/ }, async (page) => {
    await page.getByLabel('Token').fill('pct_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('The server refused this token.').waitFor();
    await page.getByLabel('Token').fill(reader);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('link', { name: 'nightly' }).waitFor();
    await page.reload();
    await page.getByRole('link', { name: 'nightly' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token').waitFor();
    assert.equal(await page.getByText('nightly').count(), 0);
  });
});

/** The actions on a screen; all that changes something begins with one of these words. */
const ACTION =
  /^(New|Create|Run now|Pause|Resume|Edit|Delete|Cancel|Retry|Replay|Discard|Add|Flush|Remove|Go back|Save|Select|Approve|Reject|Skip|Drain|Move|Kill|Send|Submit|Store|Replace|Acknowledge|Deliver|Postpone|Give|Take|Extend|Return)\b/;
function actions(page) {
  return page.evaluate(() => {
    const controls = document.querySelectorAll('main :is(button, a, input[type=checkbox]), aside button');
    return [...controls].map((each) => each.ariaLabel ?? each.textContent.trim());
  });
}

const HAVE_ACTIONS =
  'jobs|new job|job|revisions|editor|runs|run|failed run|waiting run|running run|workflow|step|failed step|queues|queue|message|workers|dead letters|dead letter|calendars|business days|approval|descriptors|descriptor|tokens'.split(
    '|',
  );

test('an administrator sees the actions of every screen', async () => {
  const without = [];
  await visit({}, async (page) => {
    for (const name of HAVE_ACTIONS) {
      await go(page, screens[name]);
      if (!(await actions(page)).some((label) => ACTION.test(label))) without.push(name);
    }
  });
  assert.deepEqual(without, []);
});

test('a reader sees no action on any screen', async () => {
  const seen = [];
  await visit({ token: reader }, async (page) => {
    for (const [name, path] of Object.entries(screens)) {
      await go(page, path);
      for (const label of await actions(page)) if (ACTION.test(label)) seen.push(`${name}: ${label}`);
    }
    assert.equal(await page.getByRole('navigation').getByRole('link', { name: 'Tokens' }).count(), 0);
  });
  assert.deepEqual(seen, []);
});

test('a reader starts nothing with the keys of the actions', async () => {
  await visit({ token: reader, path: screens.job }, async (page) => {
    for (const name of ['job', 'waiting run', 'failed run', 'runs', 'dead letter']) {
      await go(page, screens[name]);
      for (const key of ['r', 'c', 'p', 'd', 'e', 's']) await page.keyboard.press(key);
      assert.equal(await page.getByRole('dialog').count(), 0, name);
      assert.ok(!page.url().endsWith('/edit'), name);
    }
    await page.keyboard.press('Control+K');
    await page.getByRole('option', { name: 'Runs' }).waitFor();
    for (const name of ['New job', 'Send an event', 'Submit a run'])
      assert.equal(await page.getByRole('option', { name }).count(), 0, name);
  });
});
