// The ordinary flow of a Disque client for Node, with its defaults: node disqueue.js PORT
'use strict';
const assert = require('node:assert');
const { promisify } = require('node:util');
const Disqueue = require('disqueue-node');

const client = new Disqueue({ host: '127.0.0.1', port: Number(process.argv[2]) });
const call = (verb, options) => promisify(client[verb].bind(client))(options);

client.on('connected', async () => {
  const added = await call('addJob', { queue: 'node', job: 'hello', timeout: 0 });
  assert.match(String(added), /^D-/);
  assert.equal(await call('qlen', 'node'), 1);
  const [job] = await call('getJob', { queue: 'node', count: 1 });
  assert.deepEqual(job, { queue: 'node', jobId: String(added), body: 'hello' });
  assert.equal(await call('nack', [job.jobId]), 1);
  const [again] = await call('getJob', { queue: ['other', 'node'], count: 1, withcounters: true });
  assert.equal(again.nacks, 1, 'one nack is counted');
  assert.equal(await call('ackJob', [job.jobId]), 1);
  assert.equal(await call('qlen', 'node'), 0);
  console.log('disqueue-node: everything was as it should be');
  process.exit(0);
});
client.on('error', (error) => { throw error; });
