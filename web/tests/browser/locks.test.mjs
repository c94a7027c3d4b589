// The list of locks, and the panel of one.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { cluster, visit } from './scene.mjs';
import { until } from './servers.mjs';

let api, reader;
before(async () => {
  ({ api, reader } = await cluster());
});

/** A namespace of its own: the locks of other tests are not listed. */
const at = (path) => `/namespaces/locking/${path}`;
const acquire = (name, owner, wait = '0s') => api('POST', at(`locks/${name}`), { ttl: '1h', owner, wait });

test('a lock shows its owner and who waits, and is released', async () => {
  await acquire('backup', 'host-1');
  const next = acquire('backup', 'host-2', '30s');
  await until(async () => (await api('GET', at('locks/backup'))).waiting.length === 1);
  await visit({ path: '#/locks?ns=locking' }, async (page) => {
    await page.getByRole('heading', { name: '1 lock held' }).waitFor();
    await page.getByRole('row').filter({ hasText: 'host-1' }).getByRole('link', { name: 'backup' }).click();
    const panel = page.getByRole('complementary', { name: 'backup' });
    await panel.getByText('1 caller waits; callers get the lock in this order').waitFor();
    await panel.getByText('host-2').waitFor();
    await panel.getByRole('button', { name: 'Release' }).click();
    const dialog = page.getByRole('dialog', { name: 'Take lock backup from host-1?' });
    await dialog.getByRole('button', { name: 'Release' }).click();
    await page.getByRole('row').filter({ hasText: 'host-2' }).waitFor();
  });
  assert.equal((await next).owner, 'host-2');
});

test('a reader sees a lock and cannot release it', async () => {
  await acquire('guarded', 'host-3');
  await visit({ token: reader, path: '#/locks?ns=locking&lock=guarded' }, async (page) => {
    const panel = page.getByRole('complementary', { name: 'guarded' });
    await panel.getByText('host-3').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Release' }).count(), 0);
  });
});
