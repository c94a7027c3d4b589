// Every screen, in both languages and themes, on wide and narrow windows, and zoomed.
import { AxeBuilder } from '@axe-core/playwright';
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { cluster, fits, go, settled, visit } from './scene.mjs';
import { seedPlain } from './seed.mjs';

let screens;
before(async () => {
  screens = await seedPlain((await cluster()).api);
});

/** Calls `check` on every screen of one page. */
async function everyScreen(options, check) {
  await visit(options, async (page) => {
    for (const [name, path] of Object.entries(screens)) {
      await go(page, path);
      await check(page, name);
    }
  });
}

/** The words that a user reads or hears, without what users wrote: that is in these elements. */
function words(page) {
  return page.evaluate(() => {
    const theirs =
      'bdi, .user-text, code, pre, kbd, .mono, .cm-editor, header option, datalist option, textarea, script, style, noscript';
    const found = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode())
      if (!node.parentElement.closest(theirs)) found.add(node.data.trim());
    for (const name of ['aria-label', 'placeholder', 'title'])
      for (const element of document.querySelectorAll(`[${name}]:not(${theirs})`))
        found.add(element.getAttribute(name));
    return [...found].filter(Boolean);
  });
}

/** Names and units that are the same in both languages, and the switch, which names the other language. */
const SHARED =
  /^(broken|nightly)$|Punctual|YAML|JSON|Cron|curl|HTTP|UTC|Europe\/Berlin|Switch to English|切换到中文|\bp(50|95|99)\b/g;
const isForeign = {
  en: (text) => /\p{Script=Han}/u.test(text.replace(SHARED, '')),
  zh: (text) => /[a-z]{3}/i.test(text.replace(SHARED, '')) && !/\p{Script=Han}/u.test(text),
};

/** What axe calls serious or critical. */
async function violations(page) {
  const found = (await new AxeBuilder({ page }).setLegacyMode().analyze()).violations;
  const bad = found.filter(({ impact }) => ['serious', 'critical'].includes(impact));
  return bad.map(({ id, nodes }) =>
    [id, ...nodes.slice(0, 3).map((node) => node.html.slice(0, 200))].join('\n  '),
  );
}

for (const [lang, theme] of [
  ['en', 'light'],
  ['zh', 'dark'],
]) {
  test(`every screen is accessible and has all its words: ${lang}, ${theme}`, async () => {
    const found = [];
    await everyScreen({ lang, theme }, async (page, name) => {
      await fits(page, name);
      const scheme = await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
      assert.equal(scheme, theme, name);
      for (const text of await words(page)) {
        const isBroken = /undefined|\bNaN\b|\[object|=>|\bnull\b/.test(text);
        if (isBroken || isForeign[lang](text)) found.push(`${name}: ${text}`);
      }
      for (const violation of await violations(page)) found.push(`${name}: ${violation}`);
    });
    assert.equal(found.join('\n'), '');
  });

  test(`sign-in, palette, keys and dialogs are accessible: ${lang}, ${theme}`, async () => {
    const found = [];
    await visit({ lang, theme, token: null, allowed: /401/ }, async (page) => {
      await page.getByLabel(/^(Token|令牌)$/).waitFor();
      found.push(...(await violations(page)));
    });
    await visit({ lang, theme, path: screens.job }, async (page) => {
      await settled(page);
      for (const key of ['Control+K', '?', 'r', 'p', 's']) {
        if (key === 's') await go(page, screens.runs);
        await page.keyboard.press(key);
        await page.getByRole('dialog').waitFor();
        found.push(...(await violations(page)));
        await page.keyboard.press('Escape');
        await page.getByRole('dialog').waitFor({ state: 'detached' });
      }
    });
    assert.equal(found.join('\n'), '');
  });
}

for (const [what, options] of [
  ['390 px', { width: 390, lang: 'zh', theme: 'dark' }],
  ['a zoom of 200 %', { width: 640, height: 400, scale: 2 }],
  ['a zoom of 400 %', { width: 320, height: 256, scale: 4 }],
]) {
  test(`every screen fits at ${what}`, () => everyScreen(options, fits));
}
