// The page when its stream is blocked, and when its node is gone.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { cluster, dot, visit } from './scene.mjs';

let scene;
before(async () => {
  scene = await cluster();
  await scene.api('PUT', '/namespaces/default/jobs/echo', { overlap: 'allow', task: { noop: {} } });
});

/** Starts a run and waits until its row is in the list. */
async function runAppears(page) {
  const { id } = await scene.api('POST', '/namespaces/default/jobs/echo/run', {});
  await page.locator(`main a[href*="${id}"]`).first().waitFor();
}

test('a new run appears while the page is live', async () => {
  await visit({ path: '#/runs?job=echo' }, async (page) => {
    await dot(page, 'live');
    await runAppears(page);
  });
});

test('the page polls when the stream is blocked', async () => {
  const prepare = (page) => page.route('**/api/v1/live*', (route) => route.abort());
  await visit({ path: '#/runs?job=echo', prepare, allowed: /ERR_FAILED/ }, async (page) => {
    await dot(page, 'polling');
    await runAppears(page);
    await dot(page, 'polling');
  });
});

test('the page says that its node is gone, and recovers with it', async () => {
  const node = scene.nodes[2];
  const allowed = /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|503/;
  await visit({ at: node.address, path: '#/runs?job=echo', allowed }, async (page) => {
    await dot(page, 'live');
    await runAppears(page);
    const rows = await page.getByRole('row').count();
    await node.end('SIGKILL');
    const banner = page.getByRole('alert').getByText('The node does not answer.');
    await banner.waitFor();
    await dot(page, 'offline');
    assert.equal(await page.getByRole('row').count(), rows, 'what was known is still shown');
    await node.start();
    await banner.waitFor({ state: 'detached' });
    await dot(page, 'live');
    await runAppears(page);
  });
});
