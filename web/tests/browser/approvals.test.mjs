// The list of all steps that wait for an approval.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { cluster, visit } from './scene.mjs';
import { until } from './servers.mjs';

let api, reader;
before(async () => {
  ({ api, reader } = await cluster());
});

/** A namespace of its own: the steps of other tests are not listed. */
const at = (path) => `/namespaces/signing/${path}`;
const IN = 'ns=signing';

/** The runs of a job whose steps wait for an approval. */
async function waiting(job, count) {
  const steps = { check: { approve: { within: '1h' } }, after: { needs: ['check'], task: { noop: {} } } };
  await api('PUT', at(`jobs/${job}`), { overlap: 'allow', task: { workflow: { steps } } });
  const ids = [];
  for (let made = 0; made < count; made += 1) ids.push((await api('POST', at(`jobs/${job}/run`), {})).id);
  const listed = async () => {
    const { items } = await api('GET', `${at('approvals')}?limit=1000`);
    return items.filter((each) => each.job === job).length === count;
  };
  await until(listed);
  return ids;
}

const stepOf = async (id) =>
  (await api('GET', at(`runs/${id}/graph`))).nodes.find(({ step }) => step === 'check');

test('steps that wait are listed from Now, and approved and rejected with a comment', async () => {
  const [first, second] = await waiting('payout', 2);
  await visit({ path: '#/' }, async (page) => {
    const attention = page.getByRole('region', { name: 'Needs attention' });
    const entry = attention.getByRole('listitem').filter({ hasText: 'payout' });
    await entry.getByText('2 steps wait for an approval').waitFor();
    await entry.getByRole('link').click();

    const rows = page.getByRole('row').filter({ hasText: 'payout' });
    await rows.nth(1).waitFor();
    await rows.filter({ hasText: first }).getByRole('link', { name: 'check' }).click();
    const panel = page.getByRole('complementary', { name: 'check' });
    await panel.getByLabel('Comment (optional)').fill('Paid.');
    await panel.getByRole('button', { name: 'Approve', exact: true }).click();
    await rows.filter({ hasText: first }).waitFor({ state: 'detached' });
    await panel.getByText('This step no longer waits for an approval.').waitFor();

    await rows.filter({ hasText: second }).getByRole('link', { name: 'check' }).click();
    await panel.getByLabel('Comment (optional)').fill('Twice.');
    await panel.getByRole('button', { name: 'Reject', exact: true }).click();
    await rows.filter({ hasText: second }).waitFor({ state: 'detached' });
  });
  const [approved, rejected] = [await stepOf(first), await stepOf(second)];
  assert.deepEqual([approved.state, approved.by_hand.comment], ['succeeded', 'Paid.']);
  assert.deepEqual([rejected.state, rejected.by_hand.comment], ['failed', 'Twice.']);
});

test('a list of more than one page is read to its end', async () => {
  await waiting('many', 205);
  await visit({ path: `#/approvals?${IN}` }, async (page) => {
    await page.getByRole('heading', { name: /^More than 200 steps wait/ }).waitFor();
    const table = page.getByRole('table', { name: 'Waiting approvals' });
    await table.evaluate((element) => (element.scrollTop = element.scrollHeight));
    await page.getByRole('heading', { name: /^2\d\d steps wait for an approval$/ }).waitFor();
  });
});

test('a reader sees the list and decides nothing', async () => {
  const [id] = await waiting('guarded', 1);
  const path = `#/approvals?${IN}&run=${id}&step=check`;
  await visit({ token: reader, path }, async (page) => {
    const panel = page.getByRole('complementary', { name: 'check' });
    await panel.getByRole('link', { name: 'Open the workflow' }).waitFor();
    assert.equal(await page.getByRole('button', { name: /^(Approve|Reject|Skip)/ }).count(), 0);
  });
});
