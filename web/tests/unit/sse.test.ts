import { expect, test } from 'vitest';
import { Parser } from '../../src/api/sse';

test('events are cut out of any chunks', () => {
  const text = 'retry: 1000\n\n: ping\n\nid: 7\nevent: output\ndata: {"a":1}\n\ndata: x\ndata: y\r\n\r\n';
  for (const size of [1, 3, 7, 1000]) {
    const parser = new Parser();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
    expect(events, `chunks of ${size}`).toEqual([
      { event: 'output', data: '{"a":1}', id: '7' },
      { event: 'message', data: 'x\ny', id: '7' },
    ]);
  }
});
