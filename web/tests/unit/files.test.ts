import { expect, test } from 'vitest';
import { base64Of, bytes, fromBase64 } from '../../src/lib/files';
import { nameOfFile, storeCommands } from '../../src/screens/descriptors/schema';

test('a file survives base64, also a long one', async () => {
  const content = Uint8Array.from({ length: 100_000 }, (_, index) => index % 251);
  const text = await base64Of(new Blob([content]));
  expect(text).toBe(Buffer.from(content).toString('base64'));
  expect(new Uint8Array(await fromBase64(text).arrayBuffer())).toEqual(content);
});

test('sizes are told in the largest unit that fits', () => {
  expect([0, 1, 1023, 1024, 1234, 20_480, 1_048_576, 5_000_000_000].map(bytes)).toEqual(
    '0 B,1 B,1023 B,1 KiB,1.2 KiB,20 KiB,1 MiB,4.7 GiB'.split(','),
  );
});

test('a schema gets its name from its file', () => {
  expect(nameOfFile('orders.binpb')).toBe('orders');
  expect(nameOfFile('orders.v1.binpb')).toBe('orders.v1');
  expect(nameOfFile('my orders (2).pb')).toBe('my-orders-2-');
});

test('the command lines read the set from the file', () => {
  const { cli, curl } = storeCommands('orders', 'my orders.binpb');
  expect(cli).toBe("punctual descriptor apply orders 'my orders.binpb'");
  expect(curl).toContain(`"$(base64 < 'my orders.binpb' | tr -d '\\n')" |`);
  expect(curl).toMatch(/-X PUT .*descriptors\/orders .*-d @-$/);
});
