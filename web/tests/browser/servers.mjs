// Real servers for the tests: `punctual dev`, `punctual server` over TLS, or three nodes on PostgreSQL with two workers.
// Each takes a free port and a temporary folder, and serves the console from `dist/`.
import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, chown, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const web = new URL('../../', import.meta.url).pathname;
const target = process.env.CARGO_TARGET_DIR ?? join(web, '../target');
const binary = process.env.PUNCTUAL ?? join(target, 'debug/punctual');
const ui = ['--ui-dir', join(web, 'dist')];

/** PostgreSQL refuses to run as root; this is the number of `nobody` everywhere. */
const NOBODY = 65534;
const isRoot = process.getuid() === 0;

/** The token of the administrator; a server takes any text of 32 characters or more. */
export const ADMIN = 'pct_administrator_of_the_browser_tests';

/** Patience for a busy machine; nothing takes this long on an idle one. */
export const PATIENCE = 60_000;

/** Asks every 50 ms until `ready` returns something. */
export async function until(ready) {
  for (const start = Date.now(); Date.now() < start + PATIENCE;) {
    const answer = await ready();
    if (answer) return answer;
    await new Promise((wait) => setTimeout(wait, 50));
  }
  throw new Error(`in vain for ${PATIENCE} ms: ${ready}`);
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((listening) => server.once('listening', listening));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

const children = new Set();
process.once('exit', () => children.forEach((child) => child.kill('SIGKILL')));
// So that the listener of `exit` is called.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));

/** A child process that does not outlive this one. */
function start(command, options = {}) {
  const child = spawn(command[0], command.slice(1), { stdio: ['ignore', 'ignore', 'inherit'], ...options });
  children.add(child);
  const ended = new Promise((resolve) => child.once('exit', resolve)).then(() => children.delete(child));
  const end = async (signal = 'SIGTERM') => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await ended;
  };
  const isReady = async (ready) => {
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`${command[0]} ended with code ${child.exitCode}`);
      return ready();
    });
  };
  return { end, isReady, pid: child.pid };
}

/** A node that can be killed and started again at the same address. With `ca`, its certificate must be one of these. */
function node(port, words, ca) {
  const address = `${ca ? 'https' : 'http'}://127.0.0.1:${port}`;
  const made = { address, process: null };
  made.start = async () => {
    made.process = start([binary, ...words, '--http', `127.0.0.1:${port}`, ...ui, '--log', 'error']);
    const ready = `${address}/readyz`;
    const isReady = async () => (await fetch(ready).catch(() => null))?.ok;
    await made.process.isReady(ca ? () => answersOverTls(ready, ca) : isReady);
  };
  made.end = (signal) => made.process?.end(signal);
  return made;
}

/** `punctual dev`: `address`, `pid`, and `stop()`, which ends it and removes its folder. */
export async function startDev() {
  const data = await mkdtemp(join(tmpdir(), 'punctual-browser-'));
  const dev = node(await freePort(), ['dev', '--data', data, '--resp', '127.0.0.1:0']);
  await dev.start();
  const stop = async () => {
    await dev.end();
    await rm(data, { recursive: true, force: true });
  };
  return { address: dev.address, pid: dev.process.pid, stop };
}

/** `fetch` cannot be told which certificates to trust. */
function answersOverTls(address, ca) {
  return new Promise((resolve) => {
    get(address, { ca }, (answer) => resolve(answer.resume().statusCode === 200)).on('error', () =>
      resolve(false),
    );
  });
}

/** `punctual server` with a certificate of its own, in one process that also executes runs. */
export async function startSecure() {
  const folder = await mkdtemp(join(tmpdir(), 'punctual-browser-'));
  const [cert, key, secret] = ['cert.pem', 'key.pem', 'admin'].map((name) => join(folder, name));
  // As docs/guides/securing.md says.
  const names = ['basicConstraints=critical,CA:FALSE', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  const added = names.flatMap((each) => ['-addext', each]);
  const made = ['-keyout', key, '-out', cert, '-subj', '/CN=localhost', ...added];
  await run('openssl', ['req', '-x509', '-days', '2', ...curve, ...made]);
  await chmod(key, 0o600);
  await writeFile(secret, ADMIN, { mode: 0o600 });
  const safety = ['--tls-cert', cert, '--tls-key', key, '--bootstrap-token-file', secret];
  const rest = ['--data', join(folder, 'data'), '--slots', '4'];
  const server = node(await freePort(), ['server', ...safety, ...rest], await readFile(cert));
  await server.start();
  const stop = async () => {
    await server.end();
    await rm(folder, { recursive: true, force: true });
  };
  return { address: server.address, stop };
}

/** Three nodes, two workers and a reader's token. */
export async function startCluster() {
  const folder = await mkdtemp(join(tmpdir(), 'punctual-browser-'));
  const database = await startPostgres(join(folder, 'postgres'));
  const secret = join(folder, 'admin');
  await writeFile(secret, ADMIN, { mode: 0o600 });
  const words = [
    'server',
    '--store',
    database.url,
    '--durability',
    'relaxed',
    '--bootstrap-token-file',
    secret,
  ];
  const nodes = [];
  for (const name of ['node-1', 'node-2', 'node-3'])
    nodes.push(node(await freePort(), [...words, '--name', name, '--data', join(folder, name)]));
  await nodes[0].start(); // makes the tables
  await Promise.all([nodes[1].start(), nodes[2].start()]);

  const { address } = nodes[0];
  const api = (method, path, body) => request(address, method, path, body);
  const reader = (await api('POST', '/tokens', { name: 'reader', role: 'reader' })).token;
  const { token } = await api('POST', '/tokens', { name: 'worker', role: 'worker' });
  const servers = nodes.map((each) => each.address).join(',');
  const workers = [];
  const startWorker = async (name) => {
    const data = join(folder, name);
    const options = ['--name', name, '--data', data, '--slots', '8', '--label', 'zone=east', '--drain', '0s'];
    const env = { ...process.env, PUNCTUAL_TOKEN: token };
    const worker = start([binary, 'worker', '--server', servers, ...options, '--log', 'error'], { env });
    workers.push(worker);
    const isListed = async () =>
      (await api('GET', '/workers')).items.some((each) => each.name.startsWith(name));
    await worker.isReady(isListed);
    return worker;
  };
  await Promise.all(['worker-1', 'worker-2'].map(startWorker));

  const stop = async () => {
    await Promise.all(workers.map((worker) => worker.end()));
    await Promise.all(nodes.map((each) => each.end()));
    await database.end();
    await rm(folder, { recursive: true, force: true });
  };
  return { address, nodes, api, reader, startWorker, stop };
}

/** A request of the administrator below `/api/v1`. Returns the body; throws what the server refuses. */
export async function request(address, method, path, body) {
  const headers = { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' };
  const sent = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) };
  const answer = await until(async () => {
    const given = await fetch(`${address}/api/v1${path}`, sent);
    return given.status === 503 ? null : given; // a busy machine: try again
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

async function startPostgres(folder) {
  const programs = postgresPrograms();
  const user = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
  await mkdir(folder);
  if (isRoot) {
    await chmod(join(folder, '..'), 0o711);
    await chown(folder, NOBODY, NOBODY);
  }
  const data = join(folder, 'data');
  const made = ['--auth=trust', '--no-sync', '--encoding=UTF8', '--locale=C', '--username=punctual'];
  await run(join(programs, 'initdb'), ['--pgdata', data, ...made], user);
  const port = await freePort();
  const settings = ['listen_addresses=127.0.0.1', 'max_connections=200', 'fsync=off'].flatMap((each) => [
    '-c',
    each,
  ]);
  const command = [join(programs, 'postgres'), '-D', data, '-k', folder, '-p', String(port), ...settings];
  const server = start(command, { ...user, stdio: 'ignore' });
  const ask = ['-q', '-h', '127.0.0.1', '-p', String(port)];
  const answers = () =>
    run(join(programs, 'pg_isready'), ask).then(
      () => true,
      () => false,
    );
  await server.isReady(answers);
  return { url: `postgres://punctual@127.0.0.1:${port}/postgres`, end: () => server.end('SIGQUIT') };
}

/** The folder with the programs of the newest PostgreSQL of this machine. */
function postgresPrograms() {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...versions.map((version) => join(debian, version, 'bin')),
    ...process.env.PATH.split(':'),
  ];
  const found = folders.find((each) => existsSync(join(each, 'postgres')));
  if (!found) throw new Error('PostgreSQL is not installed: scripts/install-deps test');
  return found;
}
