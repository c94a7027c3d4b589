// Raw commands by node-redis, with its defaults: node node_redis.js PORT
'use strict';
const assert = require('node:assert');
const { createClient } = require('redis');

async function flow(options) {
  const client = createClient({ socket: { host: '127.0.0.1', port: Number(process.argv[2]) }, ...options });
  client.on('error', (error) => { throw error; });
  await client.connect();
  assert.equal(await client.ping(), 'PONG');
  const added = await client.sendCommand(['ADDJOB', 'node-redis', 'hello', '0']);
  const jobs = await client.sendCommand(['GETJOB', 'FROM', 'node-redis']);
  assert.deepEqual(jobs, [['node-redis', added, 'hello']]);
  assert.equal(await client.sendCommand(['ACKJOB', added]), 1);
  assert.equal(await client.sendCommand(['GETJOB', 'NOHANG', 'FROM', 'node-redis']), null);
  await client.close();
}

flow({}).then(() => flow({ RESP: 2 })).then(() => {
  console.log('node-redis: everything was as it should be');
});
