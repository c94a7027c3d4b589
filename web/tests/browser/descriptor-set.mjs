// A descriptor set as `protoc` writes it, so that the tests need no compiler:
//
//     package orders.v1;
//     message Day { string day = 1; }
//     service Orders {
//       rpc Settle(Day) returns (Day);
//       rpc Watch(Day) returns (stream Day);
//       …
//     }

/** A field of Protocol Buffers with a text or an encoded message: its number, its length, its content. */
function field(number, content) {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]); // all are shorter than 128 bytes
}
const flag = (number, value) => Buffer.from([number << 3, value]);
const message = (...fields) => Buffer.concat(fields);

/** `methods` are the unary methods of the service. */
export function descriptorSet(methods = ['Settle']) {
  const day = message(field(1, 'day'), flag(3, 1), flag(4, 1), flag(5, 9)); // number 1, optional, a string
  const call = (name, ...rest) =>
    field(2, message(field(1, name), field(2, '.orders.v1.Day'), field(3, '.orders.v1.Day'), ...rest));
  const service = message(
    field(1, 'Orders'),
    ...methods.map((name) => call(name)),
    call('Watch', flag(6, 1)), // streams its answers
  );
  const parts = [field(1, 'orders.proto'), field(2, 'orders.v1'), field(12, 'proto3')];
  const type = field(4, message(field(1, 'Day'), field(2, day)));
  return long(1, message(...parts, type, long(6, service)));
}

/** A field of up to 16 KiB: its length takes two bytes. */
function long(number, content) {
  const length = [(content.length & 0x7f) | 0x80, content.length >> 7];
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), content]);
}
