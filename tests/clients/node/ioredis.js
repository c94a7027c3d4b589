// Raw commands by ioredis, with its defaults: node ioredis.js PORT
'use strict';
const assert = require('node:assert');
const { Redis } = require('ioredis');

async function flow() {
  const client = new Redis(Number(process.argv[2]), '127.0.0.1');
  client.on('error', (error) => { throw error; });
  assert.equal(await client.ping(), 'PONG');
  const added = await client.call('ADDJOB', 'ioredis', 'hello', '0');
  assert.deepEqual(await client.call('GETJOB', 'FROM', 'ioredis'), [['ioredis', added, 'hello']]);
  const waiting = new Redis(Number(process.argv[2]), '127.0.0.1');
  const blocked = waiting.call('GETJOB', 'TIMEOUT', '10000', 'FROM', 'ioredis');
  await client.call('ADDJOB', 'ioredis', 'for the waiting client', '0');
  const [[, second, body]] = await blocked;
  assert.equal(body, 'for the waiting client');
  assert.equal(await client.call('ACKJOB', added, second), 2);
  client.disconnect();
  waiting.disconnect();
}

flow().then(() => console.log('ioredis: everything was as it should be'));
