// What the tests share: one browser, the servers (each is started when a test first asks for it), and pages that are
// watched. `visit` fails if a page writes an error, opens a dialog of the browser or asks another server for anything.
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { chromium } from 'playwright-core';
import { ADMIN, PATIENCE, startCluster, startDev, startSecure } from './servers.mjs';

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'];
const QUIET = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];

const started = [];
function once(start) {
  let made;
  return () => {
    if (!made) started.unshift((made = start()));
    return made;
  };
}
after(async () => {
  for (const each of started) await each.then((one) => one.stop()).catch(() => {});
});

export const dev = once(startDev);
export const secure = once(startSecure);
export const cluster = once(startCluster);
const chrome = once(async () => {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  const browser = await chromium.launch({ executablePath, args: [...FLAGS, ...QUIET] });
  return { browser, stop: () => browser.close() };
});

/**
 * Opens a page in a context of its own, calls `walk(page)` and closes it. Without `at`, the page is one of the first
 * node of the cluster, with the token of the administrator; a `token` of null is asked for on the page.
 * `allowed` matches messages that belong to the test, such as those of a request that is blocked. `prepare(page)` is
 * called before the page is loaded.
 */
export async function visit(options, walk) {
  const { path = '', lang = 'en', theme = 'light', width = 1280, height = 800, scale = 1, allowed } = options;
  const at = options.at ?? (await cluster()).address;
  const token = options.token === undefined ? ADMIN : options.token;
  const { browser } = await chrome();
  const context = await browser.newContext({
    viewport: { width, height },
    deviceScaleFactor: scale,
    locale: lang === 'zh' ? 'zh-CN' : 'en-GB',
    colorScheme: theme,
    ignoreHTTPSErrors: at.startsWith('https:'), // no authority signed the certificate of the tests
  });
  if (token) await context.addInitScript((text) => sessionStorage.setItem('punctual.token', text), token);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const wrong = watch(page, at, allowed);
  try {
    await options.prepare?.(page);
    await page.goto(`${at}/${path}`);
    await walk(page);
    assert.deepEqual(wrong, []);
  } catch (error) {
    const picture = join(tmpdir(), `punctual-browser-${Date.now()}.png`);
    await page.screenshot({ path: picture }).catch(() => {});
    error.stack += `\nat ${page.url()}, see ${picture}${wrong.length > 0 ? `\n${wrong.join('\n')}` : ''}`;
    throw error;
  } finally {
    await context.close();
  }
}

/** The list of what a page does wrong; it grows while the page is open. */
function watch(page, origin, allowed) {
  const wrong = [];
  // A busy machine answers 503, and the page asks again.
  const note = (text) => /status of 503/.test(text) || allowed?.test(text) || wrong.push(text);
  page.on('console', (message) => {
    const isTrouble = ['error', 'warning'].includes(message.type());
    if (isTrouble) note(`${message.text()} ${message.location().url}`);
  });
  page.on('pageerror', (error) => note(error.stack ?? error.message));
  page.on('dialog', (dialog) => {
    note(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    const isOwn = request.url().startsWith(`${origin}/`) || request.url().startsWith('blob:');
    if (!isOwn) note(`request to ${request.url()}`);
  });
  return wrong;
}

/** Requests to the cluster, in the namespace that its pages show. */
export const inDefault = (path) => `/namespaces/default/${path}`;
export const put = async (name, job) => (await cluster()).api('PUT', inDefault(`jobs/${name}`), job);
export const start = async (name, body = {}) =>
  (await cluster()).api('POST', inDefault(`jobs/${name}/run`), body);

export const button = (page, name) => page.getByRole('button', { name, exact: true });
export const inDialog = (page, name) => page.getByRole('dialog').getByRole('button', { name, exact: true });
/** Waits until the title of a run says this state. */
export const state = (page, word) => page.locator('main h1').getByText(word, { exact: true }).waitFor();
/** Waits until the dot in the header says this word. */
export const dot = (page, word) =>
  page.locator('header').getByRole('status').getByText(word, { exact: true }).waitFor();

/** Goes to a screen without loading the page again, and waits until it has its data. */
export async function go(page, path) {
  await page.evaluate((hash) => (location.hash = hash), path.slice(1));
  await settled(page);
}

/** The screen is loaded: nothing in it is busy or a placeholder. */
export async function settled(page) {
  const busy = 'main [aria-busy=true], main .skeleton';
  await page.waitForFunction(
    (selector) => document.querySelector('main > *') && !document.querySelector(selector),
    busy,
  );
}

/** Fails if the page is wider than the window, or if a control is beyond its edge or squeezed out of sight. */
export async function fits(page, what) {
  const lost = await page.evaluate(() => {
    const clips = (element) => /auto|scroll|hidden/.test(getComputedStyle(element).overflow);
    const upTo = (element, found) => {
      for (let at = element.parentElement; at; at = at.parentElement) if (found(at)) return at;
      return null;
    };
    // An ancestor shows it when it is scrolled, or ends it with an ellipsis.
    const isHeld = (element) =>
      upTo(element, (at) => {
        const { overflowX, textOverflow } = getComputedStyle(at);
        return (
          at.scrollWidth > at.clientWidth && (/auto|scroll/.test(overflowX) || textOverflow === 'ellipsis')
        );
      });
    const isLost = (element) => {
      const { left, right, width, height } = element.getBoundingClientRect();
      if (
        !element.checkVisibility({ visibilityProperty: true }) ||
        width <= 1 ||
        element.closest('.skip, .sr-only')
      )
        return false;
      const isBeyond = (left < -1 || right > innerWidth + 1) && !isHeld(element);
      const room = upTo(element, clips)?.clientHeight ?? height;
      return isBeyond || room < Math.min(height, 16);
    };
    const controls = [...document.querySelectorAll('a[href], button, input, select, textarea, h1, h2')];
    const wide = [document.documentElement, ...document.querySelectorAll('main, dialog, aside')]
      .filter((element) => element.scrollWidth > element.clientWidth)
      .map((element) => `<${element.localName}> is ${element.scrollWidth} px wide`);
    return [...wide, ...controls.filter(isLost).map((element) => `lost: ${element.outerHTML.slice(0, 160)}`)];
  });
  assert.deepEqual(lost, [], `${what} fits into the window`);
}
