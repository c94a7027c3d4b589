// A server of its own and a Chromium, for `bench.mjs` and `screenshots.mjs`.
import { chromium } from 'playwright-core';
import { startDev } from '../tests/browser/servers.mjs';

const FLAGS = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'];

/** Calls `work` with the address and process of a server, a browser and `api(method, path, body)`; then ends both. */
export async function onStage(work) {
  process.env.PUNCTUAL_LOG ??= 'error';
  const server = await startDev();
  try {
    const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
    const browser = await chromium.launch({ executablePath, args: FLAGS });
    try {
      const { address, pid } = server;
      await work({ address, pid, browser, api: (...sent) => request(address, ...sent) });
    } finally {
      await browser.close();
    }
  } finally {
    await server.stop();
  }
}

async function request(address, method, path, body) {
  const sent = { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const answer = await fetch(`${address}/api/v1/${path}`, sent);
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text === '' ? null : JSON.parse(text);
}
