// The tools of the log: search, the first error, wrapped lines and times.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { button, cluster, inDefault, put, start, visit } from './scene.mjs';
import { until } from './servers.mjs';

const ROWS = 600;
const WIDE = 'w'.repeat(400);
let path;
before(async () => {
  const { api } = await cluster();
  const shell = `
    for n in $(seq 1 ${ROWS}); do
      case $n in
        90 | 290 | 590) echo "row $n of merchant m-17" ;;
        400) echo "error: row $n has no amount" ;;
        5) echo "${WIDE}" ;;
        *) echo "row $n" ;;
      esac
    done`;
  await put('wordy', { task: { shell } });
  const { id } = await start('wordy');
  await until(async () => (await api('GET', inDefault(`runs/${id}`))).finished_at);
  path = `#/runs/${id}`;
});

const output = (page) => page.getByRole('region', { name: 'Output' });
const log = (page) => page.getByRole('region', { name: 'Log', exact: true });
/** Waits until this text is in the part of the log that is seen. */
const seen = async (page, text) => {
  const row = output(page).getByText(text, { exact: true });
  await row.waitFor();
  const [inner, outer] = [await row.boundingBox(), await output(page).boundingBox()];
  assert.ok(inner.y >= outer.y && inner.y + inner.height <= outer.y + outer.height, `${text} is in view`);
};
const inAddress = (page, text) => until(() => new URL(page.url()).hash.includes(text));

test('a search in the log counts its matches and goes from one to the next', async () => {
  await visit({ path }, async (page) => {
    const find = log(page).getByRole('searchbox', { name: 'Search the log…' });
    await log(page).getByText(`${ROWS} lines`).waitFor();
    await find.fill('merchant M-17');
    await log(page).getByText('1 / 3').waitFor();
    await seen(page, 'merchant m-17'); // a match is an element of its own
    await find.press('Enter');
    await log(page).getByText('2 / 3').waitFor();
    await log(page).getByRole('button', { name: 'Next match' }).click();
    await log(page).getByText('3 / 3').waitFor();
    await log(page).getByRole('button', { name: 'Next match' }).click();
    await log(page).getByText('1 / 3').waitFor();
    await find.press('Shift+Enter');
    await log(page).getByText('3 / 3').waitFor();
    await inAddress(page, 'find=merchant');
    await page.reload();
    await log(page).getByText('1 / 3').waitFor();
    await find.fill('nowhere');
    await log(page).getByText('0', { exact: true }).waitFor();
    assert.equal(await log(page).getByRole('button', { name: 'Next match' }).isDisabled(), true);
  });
});

test('a click goes to the first error of a log', async () => {
  await visit({ path }, async (page) => {
    await output(page).getByText('row 1', { exact: true }).waitFor();
    assert.equal(await output(page).getByText('error: row 400 has no amount').count(), 0);
    await button(page, 'First error').click();
    await seen(page, 'error: row 400 has no amount');
  });
});

test('long lines of a log are wrapped when asked to', async () => {
  await visit({ path }, async (page) => {
    const row = output(page).getByText(WIDE, { exact: true });
    const isWide = () => output(page).evaluate((box) => box.scrollWidth > box.clientWidth);
    await row.waitFor();
    assert.equal(await isWide(), true);
    const before = (await row.boundingBox()).height;
    await log(page).getByRole('link', { name: 'Wrap lines' }).click();
    await inAddress(page, 'wrap=1');
    await until(async () => !(await isWide()));
    assert.ok((await row.boundingBox()).height > before);
    await log(page).getByRole('link', { name: 'Wrap lines' }).click();
    await until(isWide);
  });
});

test('the rows of a log show their times when asked to', async () => {
  await visit({ path }, async (page) => {
    await output(page).getByText('row 1', { exact: true }).waitFor();
    const clock = output(page).getByText(/^\d\d:\d\d:\d\d\.\d{3}$/);
    assert.equal(await clock.count(), 0);
    await log(page).getByRole('link', { name: 'Show times' }).click();
    await inAddress(page, 'times=1');
    await clock.first().waitFor();
    await page.reload();
    await clock.first().waitFor();
  });
});
