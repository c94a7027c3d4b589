// How the console performs in Chromium with its CPU slowed 4 times, against the real binary: `make bench BENCH=console`.
// MINUTES says how long memory is watched, PARTS which parts are measured: `PARTS="load scroll log graph cpu memory"`.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { onStage } from './stage.mjs';

const SLOWED = 4;
const RUNS = 100_000;
/** Rows that one frame scrolls over, so that every row in view is another one. */
const LEAP = 200;
const ROW_PX = 32;
/** Frames come with the ticks of a screen of 60 Hz: 33 ms are two of them, 33.3 ms. */
const TWO_TICKS_MS = 33.4;
const LOG_LINES = 125_000;
const LOG_LINE = 'settled payment of merchant 977 in batch 12: 12.50 EUR, card 4242, ok.'; // 80 bytes with its number
const MINUTES = Number(process.env.MINUTES ?? 10);
const CPU_SECONDS = 20;
/** What a new job or a page costs at its start is over after this. */
const CALM_MS = 3_000;
/** Ticks a second in /proc/PID/stat, on every platform that we build for. */
const TICKS = 100;
/** The screens that are open while the CPU of the node is measured. */
const SCREENS = ['#/', '#/jobs', '#/runs', '#/queues', '#/workers'];

const PARTS = { load, scroll, log, graph, cpu, memory };
let stage;
let missed = 0;

await onStage(async (made) => {
  stage = made;
  await fill();
  for (const part of (process.env.PARTS ?? Object.keys(PARTS).join(' ')).split(' ')) await PARTS[part]();
});
process.exitCode = missed > 0 ? 1 : 0;

function tell(name, value, target, unit, digits = 0) {
  const ok = value < target;
  if (!ok) missed += 1;
  const measured = `${value.toFixed(digits)} ${unit}`;
  console.log(
    `${name.padEnd(56)}${measured.padEnd(18)}below ${`${target} ${unit}`.padEnd(18)}${ok ? 'ok' : 'missed'}`,
  );
}

/** The value below which this part of the values lies. */
function percentile(values, part) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

/** Jobs that fire every millisecond make the runs, the fastest way through REST; half of them skip most fires. */
async function fill() {
  const jobs = 20;
  for (let index = 0; index < jobs; index += 1) {
    const schedule = { every: '1ms', max_runs: RUNS / jobs };
    const overlap = index % 2 ? 'allow' : 'skip';
    const job = { schedule, overlap, task: { noop: {} }, keep: { runs: RUNS } };
    await stage.api('PUT', `namespaces/default/jobs/fill-${index}`, job);
  }
  for (let ended = 0; ended < RUNS;) {
    await sleep(500);
    const metrics = await (await fetch(`${stage.address}/metrics`)).text();
    const counts = [...metrics.matchAll(/^punctual_runs_ended_total\{.*\} (\d+)$/gm)];
    ended = counts.reduce((sum, [, count]) => sum + Number(count), 0);
  }
}

async function open(path) {
  const context = await stage.browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(600_000);
  page.on('pageerror', (error) => console.error(error));
  const devtools = await context.newCDPSession(page);
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: SLOWED });
  await page.goto(`${stage.address}/${path}`);
  return { page, devtools, close: () => context.close() };
}

/** The median of five loads with an empty cache. Content is the screen with its data. */
async function load() {
  const times = [];
  let script = 0;
  for (let count = 0; count < 5; count += 1) {
    const { page, close } = await open('');
    const loaded = await page.waitForFunction(() => {
      if (!document.querySelector('main .screen:not([aria-busy=true])')) return null;
      const scripts = performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('.js'));
      return { at: performance.now(), script: scripts.reduce((sum, each) => sum + each.encodedBodySize, 0) };
    });
    const { at, script: size } = await loaded.jsonValue();
    times.push(at);
    script = size;
    await close();
  }
  tell('script of the first load, gzipped', script / 1024, 200, 'KiB');
  tell('first content', percentile(times, 0.5), 1000, 'ms');
}

/** Reads the whole list, then scrolls back to its top, one leap a frame. */
async function scroll() {
  const { page, close } = await open('#/runs');
  await page.getByRole('table').waitFor();
  const frames = await page.evaluate(
    async ({ runs, leap }) => {
      const box = document.querySelector('[role=table]');
      const frame = () => new Promise((drawn) => requestAnimationFrame(drawn));
      while (Number(box.ariaRowCount) <= runs) {
        box.scrollTop = box.scrollHeight;
        await frame();
      }
      const times = [];
      let last = await frame();
      while (box.scrollTop > 0) {
        box.scrollTop -= leap;
        const now = await frame();
        times.push(now - last);
        last = now;
      }
      return times;
    },
    { runs: RUNS, leap: LEAP * ROW_PX },
  );
  tell('100,000 runs scrolled: 95 % of the frames', percentile(frames, 0.95), TWO_TICKS_MS, 'ms', 1);
  await close();
}

/** Chromium reports tasks of 50 ms and more; 0 means that there was none. */
async function log() {
  const shell = `sleep 4; seq -f '%08.0f ${LOG_LINE}' ${LOG_LINES}`;
  const { id } = await stage.api('POST', 'namespaces/default/runs', { task: { shell } });
  const { page, close } = await open(`#/runs/${id}`);
  await page.locator('.log').waitFor(); // the load of the page is another line
  const longest = await page.evaluate(async (lines) => {
    let longest = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) longest = Math.max(longest, duration);
    }).observe({ type: 'longtask' });
    const seen = () => Number(document.querySelector('.log .lines')?.textContent.replace(/\D/g, ''));
    while (!(seen() >= lines)) await new Promise((later) => setTimeout(later, 200));
    return longest;
  }, LOG_LINES);
  tell('a log of 10 MB followed: the longest task', longest, 200, 'ms');
  await close();
}

/** A workflow that is drawn whole, from the click on its address until its boxes and lines are there. */
async function graph() {
  const [levels, width] = [25, 20];
  const steps = {};
  for (let level = 0; level < levels; level += 1)
    for (let at = 0; at < width; at += 1)
      steps[`s${level}-${at}`] = {
        needs: level > 0 ? [at, (at + 1) % width].map((above) => `s${level - 1}-${above}`) : [],
        task: { noop: {} },
      };
  await stage.api('PUT', 'namespaces/default/jobs/graph', { task: { workflow: { steps } } });
  const { id } = await stage.api('POST', 'namespaces/default/jobs/graph/run', {});
  while ((await stage.api('GET', `namespaces/default/runs/${id}`)).state !== 'succeeded') await sleep(100);
  const times = [];
  for (let count = 0; count < 5; count += 1) {
    const { page, close } = await open(`#/runs/${id}`);
    const drawn = await page.waitForFunction((steps) => {
      const label = document.querySelector('.graph [data-box]') && document.querySelector('.graph').ariaLabel;
      const lines = document.querySelector('.graph path')?.getAttribute('d')?.split('M').length > steps;
      return label?.includes(String(steps)) && lines ? performance.now() : null;
    }, levels * width);
    times.push(await drawn.jsonValue());
    await close();
  }
  tell('a workflow of 500 steps drawn', percentile(times, 0.5), 2000, 'ms');
}

/** Ten runs a second, so that live pages have something to show. */
async function work() {
  const job = { schedule: { every: '1s' }, task: { noop: {} } };
  for (let index = 0; index < 10; index += 1)
    await stage.api('PUT', `namespaces/default/jobs/work-${index}`, job);
}

/** What open pages add to the CPU of the node while ten runs a second change what they show. */
async function cpu() {
  await work();
  await sleep(CALM_MS);
  const alone = await cpuShare();
  const pages = await Promise.all(SCREENS.map(open));
  for (const { page } of pages) await page.locator('main .screen:not([aria-busy=true])').waitFor();
  await sleep(CALM_MS);
  const watched = await cpuShare();
  for (const { close } of pages) await close();
  tell('CPU of the node per open page', (watched - alone) / pages.length, 1, '% of a core', 2);
}

async function cpuShare() {
  const before = cpuTicks();
  await sleep(CPU_SECONDS * 1000);
  return ((cpuTicks() - before) / TICKS / CPU_SECONDS) * 100;
}

function cpuTicks() {
  const fields = readFileSync(`/proc/${stage.pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

/** How much the heap grows on the list of runs, from the first tenth of the time to its end. */
async function memory() {
  await work();
  const { page, devtools, close } = await open('#/runs');
  await page.getByRole('table').waitFor();
  const sizes = [];
  for (let part = 0; part < 10; part += 1) {
    await sleep(MINUTES * 6_000);
    await devtools.send('HeapProfiler.collectGarbage');
    sizes.push((await devtools.send('Runtime.getHeapUsage')).usedSize);
  }
  const name = `memory over ${MINUTES} minutes of a live page: growth to ${Math.round(sizes.at(-1) / 1e6)} MB`;
  tell(name, (sizes.at(-1) / sizes[0] - 1) * 100, 10, '%', 1);
  await close();
}
