// The month view of a job.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, put, visit } from './scene.mjs';

/** The next last Sunday of a month (0 is January), on which the clocks of Europe change. */
function nextChange(month) {
  const now = new Date();
  const year = now.getUTCFullYear() + (now.getUTCMonth() >= month ? 1 : 0);
  const end = new Date(Date.UTC(year, month + 1, 0));
  end.setUTCDate(end.getUTCDate() - end.getUTCDay());
  return end.toISOString().slice(0, 10);
}

test('the month view marks the nights on which the clocks change', async () => {
  await put('nights', { schedule: { cron: '30 4 * * *', timezone: 'Europe/Berlin' }, task: { noop: {} } });
  await visit({}, async (page) => {
    for (const [month, words] of [
      [2, 'Clocks go forward from 02:00 to 03:00'],
      [9, 'Clocks go back from 03:00 to 02:00'],
    ]) {
      const day = nextChange(month);
      await go(page, `#/jobs/nights?month=${day.slice(0, 7)}`);
      const days = page.getByRole('list', { name: /Days in Europe\/Berlin$/ }).getByRole('listitem');
      await days.and(page.getByLabel(`${day}. 1 fire. ${words}`)).waitFor();
      assert.equal(await days.and(page.getByLabel(/Clocks/)).count(), 1);
      assert.equal(await days.count(), 31);
      await page.getByText('night on which the clocks change').waitFor();
    }
    await go(page, `#/jobs/nights?month=${nextChange(2).slice(0, 4)}-05`);
    await page.getByText('May').first().waitFor();
    assert.equal(await page.getByText('night on which the clocks change').count(), 0);
  });
});
