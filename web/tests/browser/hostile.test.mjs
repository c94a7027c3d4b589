// Texts of users that try to be markup, to turn the text around them, to command a terminal, or to be too long.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { before, test } from 'node:test';
import { cluster, dev, fits, go, visit } from './scene.mjs';
import { seedHostile, SHOWN } from './seed.mjs';

let screens;
before(async () => {
  screens = await seedHostile((await cluster()).api);
});

/** The screens that show one of the texts in full, with the mark made visible. */
const SHOW_IT =
  'job,definition,log of a job,run,failed run,waiting run,run without a job,queues,queue,message,dead letter,calendars,business days'.split(
    ',',
  );

/** What was drawn as something else than text. */
function obeyed(page) {
  return page.evaluate(() => {
    const found = [...document.querySelectorAll('img, iframe, body script, a[href*="example.com"]')];
    const raw = /[\u202a-\u202e\u2066-\u2069\u001b\u0007]/;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (node.data !== undefined && raw.test(node.data) && !element.closest('.cm-editor, textarea'))
        found.push(element);
      for (const name of ['title', 'aria-label', 'placeholder'])
        if (raw.test(node.getAttribute?.(name) ?? '')) found.push(node);
    }
    return found.map((element) => element.outerHTML.slice(0, 200));
  });
}

for (const width of [1280, 390]) {
  test(`hostile text is shown as text on every screen, ${width} px`, async () => {
    const found = [];
    await visit({ width }, async (page) => {
      for (const [name, path] of Object.entries(screens)) {
        await go(page, path);
        if (SHOW_IT.includes(name)) await page.getByText(SHOWN).first().waitFor({ state: 'attached' });
        for (const what of await obeyed(page)) found.push(`${name}: ${what}`);
        await fits(page, name).catch((error) => found.push(error.message));
      }
    });
    assert.equal(found.join('\n'), '');
  });
}

const DIALOGS = {
  job: 'Run now',
  'paused job': 'Edit the pause…',
  'job of an event': 'Send an event',
  run: 'Edit and retry…',
  queue: 'Flush…',
  message: 'Acknowledge',
  'dead letter': 'Replay…',
};

for (const [name, button] of Object.entries(DIALOGS)) {
  test(`hostile text is shown as text in the dialog "${button}"`, async () => {
    await visit({ path: screens[name], width: 390 }, async (page) => {
      await page.locator('main, aside').getByRole('button', { name: button }).last().click();
      await page.getByRole('dialog').waitFor();
      await page.getByRole('dialog').locator('summary').last().click();
      assert.deepEqual(await obeyed(page), []);
      await fits(page, button);
    });
  });
}

test('colours of a log are drawn, other commands for a terminal are shown', async () => {
  await visit({ path: screens.run }, async (page) => {
    const red = page.getByRole('region', { name: 'Output' }).locator('.text span', { hasText: SHOWN }).last();
    const [its, plain] = await red.evaluate((span) =>
      [span, span.parentElement].map((element) => getComputedStyle(element).color),
    );
    assert.notEqual(its, plain);
    assert.equal(await red.textContent(), SHOWN);
  });
});

test('the policy of the page refuses an inline script', async () => {
  await visit({ allowed: /Content Security Policy/ }, async (page) => {
    const ran = await page.evaluate(() => {
      const script = document.createElement('script');
      script.textContent = 'window.ran = true';
      document.body.append(script);
      return window.ran ?? false;
    });
    assert.equal(ran, false);
  });
});

test('a page of another origin reads nothing and changes nothing', async () => {
  const { address } = await dev();
  const stranger = createServer((_, answer) =>
    answer.setHeader('content-type', 'text/html').end('<main></main>'),
  );
  await new Promise((listening) => stranger.listen(0, '127.0.0.1', listening));
  const at = `http://127.0.0.1:${stranger.address().port}`;
  const allowed = /CORS policy|Failed to load resource|request to/;
  await visit({ at, token: null, allowed }, async (page) => {
    const outcomes = await page.evaluate(async (other) => {
      const runs = `${other}/api/v1/namespaces/default/runs`;
      const body = JSON.stringify({ task: { noop: {} }, key: 'forged' });
      const json = { 'content-type': 'application/json' };
      const ask = async (options) => (await fetch(runs, options).catch(() => null))?.type ?? 'refused';
      const stream = new Promise((resolve) => {
        const source = new EventSource(`${other}/api/v1/live?namespace=default&topics=runs`);
        source.onopen = () => resolve('open');
        source.onerror = () => (source.close(), resolve('refused'));
      });
      return {
        read: await ask({}),
        post: await ask({ method: 'POST', body, headers: json }),
        // Sent without asking first; the page cannot see the answer.
        blind: await ask({ method: 'POST', body, mode: 'no-cors' }),
        stream: await stream,
      };
    }, address);
    assert.deepEqual(outcomes, { read: 'refused', post: 'refused', blind: 'opaque', stream: 'refused' });
  });
  stranger.close();
  const { items } = await (await fetch(`${address}/api/v1/namespaces/default/runs?key=forged`)).json();
  assert.deepEqual(items, []);
});
