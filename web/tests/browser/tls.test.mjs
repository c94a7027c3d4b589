// The console of a server with a certificate: it works over TLS alone, and leaves nothing behind but a token in the tab.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { before, test } from 'node:test';
import { dot, secure, state, visit } from './scene.mjs';
import { ADMIN } from './servers.mjs';

let at;
before(async () => {
  at = (await secure()).address;
});

/** A request of the administrator from beside the page. */
async function api(page, method, path, data) {
  const headers = { authorization: `Bearer ${ADMIN}` };
  const answer = await page.request.fetch(`${at}/api/v1/namespaces/default/${path}`, {
    method,
    headers,
    data,
  });
  assert.ok(answer.ok(), `${method} ${path}: ${answer.status()}`);
  return answer.json();
}

test('over TLS the page asks for a token, is live and follows a log', async () => {
  await visit({ at, path: '#/runs', token: null, allowed: /401/ }, async (page) => {
    await page.getByLabel('Token').fill(ADMIN);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await dot(page, 'live');
    await page.getByText('There are no runs yet.').waitFor();
    const { id } = await api(page, 'POST', 'runs', { task: { shell: 'echo begun; sleep 600' } });
    await page.locator(`main a[href*="${id}"]`).first().click();
    await page.getByRole('region', { name: 'Output' }).getByText('begun').waitFor();
    await state(page, 'Running');
    await api(page, 'POST', `runs/${id}/cancel`, {});
    await state(page, 'Cancelled');
  });
});

test('over TLS every answer demands TLS, and none sets a cookie', async () => {
  const answers = [];
  const prepare = (page) => page.on('response', (answer) => answers.push(answer));
  await visit({ at, path: '#/jobs', prepare }, async (page) => {
    await dot(page, 'live');
    await page.getByRole('button', { name: 'Create the job hello' }).waitFor();
    const kinds = new Set(answers.map((answer) => answer.request().resourceType()));
    for (const kind of ['document', 'script', 'stylesheet', 'fetch']) assert.ok(kinds.has(kind), kind);
    for (const answer of answers) {
      const headers = await answer.allHeaders();
      assert.equal(headers['strict-transport-security'], 'max-age=31536000', answer.url());
      assert.equal(headers['x-content-type-options'], 'nosniff', answer.url());
      assert.equal(headers['referrer-policy'], 'no-referrer', answer.url());
      assert.equal(headers['set-cookie'], undefined, answer.url());
    }
    assert.deepEqual(await page.context().cookies(), []);
    assert.deepEqual(
      await page.evaluate(() => [
        isSecureContext,
        document.cookie,
        JSON.stringify(localStorage).includes('pct_'),
      ]),
      [true, '', false],
    );
  });
});

test('the port of TLS answers nothing to plain HTTP', async () => {
  const heard = await new Promise((resolve) => {
    request(at.replace('https:', 'http:'), (answer) => resolve(answer.statusCode))
      .on('error', (error) => resolve(error.code))
      .end();
  });
  assert.ok(['ECONNRESET', 'HPE_INVALID_CONSTANT', 'HPE_INVALID_VERSION'].includes(heard), String(heard));
});
