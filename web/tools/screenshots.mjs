// Makes the pictures of README and docs: `make screenshots`. With ALL=1, pictures of every screen in both languages,
// both themes and both widths, in target/screenshots; ALL=zh-dark-390 makes only these.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { seed } from './seed.mjs';
import { onStage } from './stage.mjs';

const root = new URL('../../', import.meta.url).pathname;
const FOR_DOCS = ['now', 'jobs', 'run', 'calendar', 'workflow'];

await onStage(async ({ address, browser, api }) => {
  const screens = await seed(api);

  async function shoot(folder, names, { lang = 'en', theme = 'light', width = 1280, height = 800 } = {}) {
    await mkdir(folder, { recursive: true });
    const locale = lang === 'zh' ? 'zh-CN' : 'en-GB';
    const viewport = { width, height };
    const context = await browser.newContext({
      viewport,
      locale,
      timezoneId: lang === 'zh' ? 'Asia/Shanghai' : 'Europe/Berlin',
      colorScheme: theme,
      reducedMotion: 'reduce',
    });
    const page = await context.newPage();
    page.setDefaultTimeout(120_000);
    for (const name of names) {
      await page.goto(`${address}/?${name}${screens[name]}`); // the query makes it a new page
      await page.waitForFunction(
        () =>
          document.querySelector('main > *') &&
          !document.querySelector('main [aria-busy=true], main .skeleton'),
      );
      await page.waitForTimeout(500); // charts draw after their data
      await page.screenshot({ path: join(folder, `${name}.png`) });
    }
    await context.close();
  }

  const { ALL } = process.env;
  if (!ALL) return shoot(join(root, 'docs/images'), FOR_DOCS);
  for (const lang of ['en', 'zh'])
    for (const theme of ['light', 'dark'])
      for (const width of [1280, 390]) {
        const look = `${lang}-${theme}-${width}`;
        if (ALL !== '1' && !ALL.includes(look)) continue;
        await shoot(join(root, 'target/screenshots', look), Object.keys(screens), { lang, theme, width });
      }
});
