// The steps of a workflow: the graph while it runs, decisions by hand, the Gantt chart, and the graph of the job.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { button, cluster, go, inDefault, inDialog, put, start, state, visit } from './scene.mjs';
import { until } from './servers.mjs';

let api, reader;
before(async () => {
  ({ api, reader } = await cluster());
});

const noop = { noop: {} };
const box = (page, step) => page.getByRole('group', { name: /^Graph/ }).locator(`[data-box="${step}"]`);
const says = (page, step, word) => box(page, step).getByText(word, { exact: true }).waitFor();
const panelOf = (page, step) => page.getByRole('complementary', { name: step, exact: true });
const stepsOf = async (id) => {
  const { nodes } = await api('GET', inDefault(`runs/${id}/graph`));
  return Object.fromEntries(nodes.map((node) => [node.step, node]));
};

test('a diamond is drawn, and goes on when its approval is given by the button', async () => {
  const steps = {
    fetch: { task: noop },
    check: { needs: ['fetch'], approve: { within: '1h' } },
    count: { needs: ['fetch'], task: { shell: 'echo 3' } },
    join: { needs: ['check', 'count'], task: noop },
  };
  await put('diamond', { task: { workflow: { steps, finally: { clean: { task: noop } } } } });
  const { id } = await start('diamond');

  await visit({ token: reader, path: `#/runs/${id}?step=check` }, async (page) => {
    await panelOf(page, 'check').getByText('Needs approval', { exact: true }).waitFor();
    assert.equal(await page.getByRole('button', { name: /^(Approve|Reject|Skip|Pause)/ }).count(), 0);
  });

  await visit({ path: '#/' }, async (page) => {
    const attention = page.getByRole('region', { name: 'Needs attention' });
    const entry = attention.getByRole('listitem').filter({ hasText: 'diamond' });
    await entry.getByText('step “check” waits for an approval').waitFor();
    await entry.getByRole('link').click();
    await says(page, 'check', 'Needs approval');
  });

  await visit({ path: `#/runs/${id}` }, async (page) => {
    await says(page, 'check', 'Needs approval');
    await says(page, 'count', 'Succeeded');
    await says(page, 'join', 'Not started');
    await says(page, 'clean', 'Not started');

    await box(page, 'check').click();
    const panel = panelOf(page, 'check');
    await panel.getByText('Counts as rejected', { exact: true }).waitFor();
    await panel.getByLabel('Comment (optional)').fill('The numbers are right.');
    await panel.getByRole('button', { name: 'Approve', exact: true }).click();
    await panel.getByText('A person approved it.').waitFor();
    await panel.locator('blockquote').getByText('The numbers are right.').waitFor();
    await state(page, 'Succeeded');
    await says(page, 'join', 'Succeeded');
    await says(page, 'clean', 'Succeeded');
  });
  const { check } = await stepsOf(id);
  assert.equal(check.by_hand.comment, 'The numbers are right.');

  await visit({ path: `#/runs/${id}` }, async (page) => {
    // By keys: to the second column, and its step is opened.
    await box(page, 'fetch').focus();
    await page.keyboard.press('ArrowRight');
    const focused = await page.evaluate(() => document.activeElement.dataset.box);
    assert.ok(['check', 'count'].includes(focused), focused);
    await page.keyboard.press('Enter');
    await panelOf(page, focused).waitFor();
    await page.keyboard.press('Escape');
    await panelOf(page, focused).waitFor({ state: 'detached' });
    assert.equal(await page.evaluate(() => document.activeElement.dataset.box), focused);

    await page.getByRole('link', { name: 'Gantt', exact: true }).click();
    const chart = page.getByRole('group', { name: 'Gantt' });
    await chart.getByRole('link', { name: 'join', exact: true }).click();
    await panelOf(page, 'join').getByRole('link', { name: 'Log and output' }).click();
    await page.getByText('Step join of').waitFor();
    await state(page, 'Succeeded');

    await go(page, '#/jobs/diamond');
    await page.getByRole('link', { name: 'Steps', exact: true }).click();
    await box(page, 'join').click();
    await panelOf(page, 'join').getByText('all_succeeded', { exact: true }).waitFor();
    assert.equal(await page.getByText('Not started', { exact: true }).count(), 0);
  });
});

test('a rejection by the button fails the step, and the failure branch starts', async () => {
  const steps = {
    check: { approve: {} },
    pay: { needs: ['check'], task: noop },
    undo: { needs: ['check'], rule: 'any_failed', task: noop },
  };
  await put('rejected', { task: { workflow: { steps } } });
  const { id } = await start('rejected');
  await visit({ path: `#/runs/${id}?step=check` }, async (page) => {
    const panel = panelOf(page, 'check');
    await panel.getByLabel('Comment (optional)').fill('The numbers are wrong.');
    await panel.getByRole('button', { name: 'Reject', exact: true }).click();
    await panel.getByText('A person rejected it.').waitFor();
    await panel.locator('blockquote').getByText('The numbers are wrong.').waitFor();
    await says(page, 'check', 'Failed');
    await says(page, 'pay', 'Skipped');
    await says(page, 'undo', 'Succeeded');
    await state(page, 'Failed');
  });
  const { check } = await stepsOf(id);
  assert.deepEqual([check.reason, check.by_hand.comment], ['rejected', 'The numbers are wrong.']);
});

test('why a step failed is told in the language of the page', async () => {
  const steps = { paid: { wait: { event: { name: 'never-sent', within: '100ms' } } } };
  await put('unpaid', { task: { workflow: { steps } } });
  const { id } = await start('unpaid');
  for (const [lang, why] of [
    ['en', 'Its event did not come in time.'],
    ['zh', '未在期限内等到事件。'],
  ]) {
    await visit({ path: `#/runs/${id}?step=paid`, lang }, async (page) => {
      await panelOf(page, 'paid').getByText(why, { exact: true }).waitFor();
    });
  }
});

test('the runs of steps are listed only if they are asked for', async () => {
  const steps = {
    list: { task: { shell: 'echo "[1, 2, 3]"' } },
    each: { needs: ['list'], map: 'steps.list.output', task: noop },
  };
  await put('mapped', { task: { workflow: { steps } } });
  const { id } = await start('mapped');
  await visit({ path: `#/runs/${id}?step=each` }, async (page) => {
    await state(page, 'Succeeded');
    await panelOf(page, 'each').getByRole('link', { name: 'Runs of the items' }).click();
    const rows = page.getByRole('link', { name: 'mapped', exact: true });
    await page.getByRole('heading', { name: 'Runs' }).waitFor();
    await until(async () => (await rows.count()) === 4);
    await go(page, '#/runs?job=mapped');
    await until(async () => (await rows.count()) === 1);
    await go(page, '#/runs?job=mapped&children=true');
    await until(async () => (await rows.count()) === 5);
    await page.getByRole('link', { name: 'Remove the filter With child runs' }).click();
    await until(async () => (await rows.count()) === 1);
  });
});

test('a paused workflow starts no step until it is resumed', async () => {
  const steps = { gate: { approve: {} }, next: { needs: ['gate'], task: noop } };
  await put('brake', { task: { workflow: { steps } } });
  const { id } = await start('brake');
  await visit({ path: `#/runs/${id}` }, async (page) => {
    await says(page, 'gate', 'Needs approval');
    await button(page, 'Pause').click();
    await page.getByRole('dialog').getByLabel('Comment (optional)').fill('The bank is closed.');
    await inDialog(page, 'Pause').click();
    await page.getByRole('region', { name: 'Steps' }).getByText('The bank is closed.').waitFor();

    await page.getByRole('link', { name: 'Decide' }).click();
    await panelOf(page, 'gate').getByRole('button', { name: 'Approve', exact: true }).click();
    await says(page, 'gate', 'Succeeded');
    assert.equal((await stepsOf(id)).next.state, 'open');
    await panelOf(page, 'gate').getByRole('button', { name: 'Close' }).click();

    await button(page, 'Resume').click();
    await inDialog(page, 'Resume').click();
    await state(page, 'Succeeded');
    await says(page, 'next', 'Succeeded');
  });
});

test('steps are skipped and cancelled by hand', async () => {
  const steps = {
    slow: { task: { shell: 'sleep 600' } },
    late: { needs: ['slow'], rule: 'all_done', task: noop },
    last: { needs: ['late'], rule: 'all_done', task: noop },
  };
  await put('detour', { task: { workflow: { steps } } });
  const { id } = await start('detour');
  await visit({ path: `#/runs/${id}?step=late` }, async (page) => {
    await panelOf(page, 'late').getByRole('button', { name: 'Skip…' }).click();
    await inDialog(page, 'Skip the step').click();
    await panelOf(page, 'late').getByText('A person skipped it.').waitFor();

    await says(page, 'slow', 'Running');
    await box(page, 'slow').click();
    await panelOf(page, 'slow').getByRole('button', { name: 'Cancel…' }).click();
    await inDialog(page, 'Cancel the step').click();
    await says(page, 'slow', 'Cancelled');
    await state(page, 'Failed');
  });
  await until(async () => (await stepsOf(id)).last.state === 'succeeded');
});

test('a failed workflow is retried from one step, and the others are reused', async () => {
  // It fails in the first run, which has no parameter.
  const check = 'echo "checking"; cat | grep -q "fixed" || { echo "error: not fixed" >&2; exit 3; }';
  const steps = {
    fetch: { task: { shell: 'echo fetched' } },
    check: { needs: ['fetch'], task: { shell: check } },
    load: { needs: ['check'], task: noop },
    other: { needs: ['fetch'], task: { shell: 'echo other' } },
  };
  await put('again', { task: { workflow: { steps } } });
  const { id } = await start('again');
  await until(async () => (await api('GET', inDefault(`runs/${id}`))).finished_at);

  await visit({ token: reader, path: `#/runs/${id}?step=check` }, async (page) => {
    await panelOf(page, 'check').getByText('Its run failed.').waitFor();
    assert.equal(await page.getByRole('button', { name: /^Retry/ }).count(), 0);
  });

  // The newest revision of the job is the one that is retried.
  steps.check.params = { state: 'fixed' };
  await put('again', { task: { workflow: { steps } } });
  await visit({ path: `#/runs/${id}?step=check` }, async (page) => {
    const panel = panelOf(page, 'check');
    await panel.getByText('Its run failed.').waitFor();
    const log = panel.getByRole('region', { name: 'Last lines of the log' });
    await log.getByText('checking').waitFor();
    await log.getByText('error: not fixed').waitFor();

    await panel.getByRole('button', { name: 'Retry from here…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Retry from step check?' });
    await dialog.getByText('As a command').click();
    await dialog.getByText(`run retry ${id} --from check`).waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    assert.ok(page.url().includes(id), page.url());

    await panel.getByRole('button', { name: 'Retry from here…' }).click();
    await inDialog(page, 'Retry from here').click();
    await page.getByText('Retry of').waitFor();
    assert.ok(!page.url().includes(id), page.url());
    await state(page, 'Succeeded');
    await says(page, 'check', 'Succeeded');
    await says(page, 'load', 'Succeeded');
    await box(page, 'fetch').click();
    await panelOf(page, 'fetch').getByText('Reused: it ended in an earlier run.').waitFor();
    const made = await stepsOf(new URL(page.url()).hash.match(/runs\/(\d+)/)[1]);
    const reasons = Object.values(made).map(({ step, reason }) => [step, reason ?? null]);
    assert.deepEqual(Object.fromEntries(reasons), {
      fetch: 'reused',
      check: null,
      load: null,
      other: 'reused',
    });
  });
});

test('a step shows its expressions and what they gave', async () => {
  const steps = {
    fetch: { task: { shell: `echo '{"rows": 7}'` } },
    load: {
      needs: ['fetch'],
      when: 'steps.fetch.output.rows > 3',
      params: { rows: '{{ steps.fetch.output.rows }}' },
      task: noop,
    },
    ask: { needs: ['load'], approve: {} },
    ship: { needs: ['ask'], when: 'params.ship', task: noop },
  };
  await put('computed', { task: { workflow: { steps } } });
  const { id } = await start('computed');
  await visit({ path: `#/runs/${id}?step=load` }, async (page) => {
    const expressions = (step) => panelOf(page, step).getByRole('region', { name: 'Expressions' });
    await expressions('load').getByText('steps.fetch.output.rows > 3', { exact: true }).waitFor();
    await expressions('load').getByText('true', { exact: true }).waitFor();
    await expressions('load').getByText('"rows": 7').waitFor();
    await says(page, 'ask', 'Needs approval');
    await box(page, 'ship').click();
    await expressions('ship').getByText('Not evaluated', { exact: true }).waitFor();
    await box(page, 'fetch').click();
    await panelOf(page, 'fetch').waitFor();
    assert.equal(await expressions('fetch').count(), 0);
  });
  await api('POST', inDefault(`runs/${id}/cancel`));
});

test('a step shows the end of its log while it is written', async () => {
  const shell = 'for n in $(seq 1 40); do echo "row $n"; done; sleep 600';
  await put('writes', {
    task: { workflow: { steps: { long: { task: { shell } }, quiet: { task: { shell: ':' } } } } },
  });
  const { id } = await start('writes');
  await visit({ path: `#/runs/${id}?step=long` }, async (page) => {
    const log = panelOf(page, 'long').getByRole('region', { name: 'Last lines of the log' });
    await log.getByText('row 40', { exact: true }).waitFor();
    assert.equal(await log.getByText('row 20', { exact: true }).count(), 0);
    await box(page, 'quiet').click();
    await panelOf(page, 'quiet').getByText('The run printed nothing.').waitFor();
  });
  await api('POST', inDefault(`runs/${id}/cancel`));
});

test('the editor draws the graph beside the text, and a step leads to its line', async () => {
  const steps = { fetch: { task: noop }, load: { needs: ['fetch'], task: noop } };
  await put('drawn', { task: { workflow: { steps } } });
  await visit({ path: '#/jobs/drawn/edit' }, async (page) => {
    await box(page, 'fetch').waitFor();
    const text = page.getByRole('textbox', { name: 'YAML' });
    await text.getByText('load').first().waitFor();
    await box(page, 'load').click();
    await page.locator('.cm-activeLine').getByText('load').waitFor();
    // The new step is drawn when the text is right again.
    const indent = /^ */.exec(await page.locator('.cm-activeLine').textContent())[0];
    await page.keyboard.insertText(`more: { needs: [fetch], task: { noop: {} } }\n${indent}`);
    await box(page, 'more').waitFor();
    assert.equal(
      await page
        .getByRole('group', { name: /^Graph/ })
        .locator('[data-box]')
        .count(),
      3,
    );
  });
});
