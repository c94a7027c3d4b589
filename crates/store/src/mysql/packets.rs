//! Sends many statements in few packets.
//!
//! A commit is a few statements of many rows each, and its time is mostly round trips. So the statements are sent
//! together, and each is checked for the number of rows it must hit.
//!
//! The one surprise: values are part of the SQL text. They are numbers or hex, so no value can be read as SQL, whatever
//! the server's modes are.

use std::io::Write as _;

use mysql_async::prelude::Queryable;

use super::connection::{MysqlConnection, answered};
use super::failure::Failure;
use crate::Result;
use crate::sql::value::Value;

/// Rows in one statement: with more, the optimizer may choose another plan than the primary key.
const ROWS_MAX: usize = 500;
/// Bytes in one packet, unless a single row is larger: the server accepts at least 16 MiB.
const PACKET_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Packets {
    packets: Vec<Packet>,
}

#[derive(Debug, Default)]
struct Packet {
    sql: Vec<u8>,
    /// How many rows each statement must hit. `None` means any number.
    expected: Vec<Option<u64>>,
}

/// What the statements of all packets did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// Every statement hit as many rows as it must.
    pub(super) as_expected: bool,
    /// How many rows all statements hit.
    pub(super) hits: u64,
}

/// The parts from which a statement of many rows is composed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'a> {
    pub(super) head: &'a str,
    pub(super) between: &'a str,
    pub(super) tail: &'a str,
}

impl Packets {
    /// Adds one statement that must hit one row.
    pub(super) fn one(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let packet = self.open();
        write(&mut packet.sql);
        packet.close(Some(1));
    }

    /// Adds one statement that may hit any number of rows.
    pub(super) fn any(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let packet = self.open();
        write(&mut packet.sql);
        packet.close(None);
    }

    /// Adds statements for rows of one kind, as few as possible. Every row must be hit.
    pub(super) fn many<T>(&mut self, shape: Shape<'_>, rows: &[T], write: impl FnMut(&mut Vec<u8>, &T)) {
        self.in_few(shape, rows, Some, write);
    }

    /// Like `many`, but the statements may hit any number of rows.
    pub(super) fn many_or_fewer<T>(
        &mut self,
        shape: Shape<'_>,
        rows: &[T],
        write: impl FnMut(&mut Vec<u8>, &T),
    ) {
        self.in_few(shape, rows, |_| None, write);
    }

    fn in_few<T>(
        &mut self,
        shape: Shape<'_>,
        rows: &[T],
        expected: fn(u64) -> Option<u64>,
        mut write: impl FnMut(&mut Vec<u8>, &T),
    ) {
        let mut rest = rows.iter().peekable();
        while rest.peek().is_some() {
            let packet = self.open();
            packet.sql.extend_from_slice(shape.head.as_bytes());
            let mut count = 0;
            while count < ROWS_MAX
                && (count == 0 || packet.sql.len() < PACKET_BYTES_MAX)
                && let Some(row) = rest.next()
            {
                if count > 0 {
                    packet.sql.extend_from_slice(shape.between.as_bytes());
                }
                write(&mut packet.sql, row);
                count += 1;
            }
            packet.sql.extend_from_slice(shape.tail.as_bytes());
            packet.close(expected(count as u64));
        }
    }

    /// The packet for the next statement.
    fn open(&mut self) -> &mut Packet {
        let is_full = |packet: &Packet| packet.sql.len() >= PACKET_BYTES_MAX;
        if self.packets.last().is_none_or(is_full) {
            self.packets.push(Packet::default());
        }
        let last = self.packets.len() - 1;
        &mut self.packets[last]
    }

    /// Sends all packets; stops at the first error or unexpected number of rows.
    pub(super) async fn send(self, connection: &mut MysqlConnection) -> Result<Sent, Failure> {
        let mut sent = Sent { as_expected: true, hits: 0 };
        for packet in self.packets {
            answered(packet.send(connection, &mut sent)).await?;
            if !sent.as_expected {
                break;
            }
        }
        Ok(sent)
    }
}

impl Packet {
    fn close(&mut self, expected: Option<u64>) {
        self.sql.extend_from_slice(b";\n");
        self.expected.push(expected);
    }

    async fn send(self, connection: &mut MysqlConnection, sent: &mut Sent) -> mysql_async::Result<()> {
        let mut result = connection.conn.query_iter(self.sql).await?;
        for expected in self.expected {
            let hits = result.affected_rows();
            sent.as_expected &= expected.is_none_or(|expected| hits == expected);
            sent.hits += hits;
            result.next().await?;
        }
        result.drop_result().await
    }
}

pub(super) fn put(sql: &mut Vec<u8>, text: &str) {
    sql.extend_from_slice(text.as_bytes());
}

pub(super) fn int(sql: &mut Vec<u8>, number: impl Into<i64>) {
    // Writing to memory does not fail.
    let _ = write!(sql, "{}", number.into());
}

fn hex(sql: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    sql.reserve(2 * bytes.len() + 3);
    sql.extend_from_slice(b"x'");
    for byte in bytes {
        sql.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    sql.push(b'\'');
}

/// Text is marked as text, so that the index of a column of text can be used.
pub(super) fn literal(sql: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null => put(sql, "NULL"),
        Value::Int(number) => int(sql, *number),
        Value::Text(text) => {
            put(sql, "_utf8mb4 ");
            hex(sql, text.as_bytes());
        }
        Value::Bytes(bytes) => hex(sql, bytes),
    }
}

/// Writes the items with `each`, separated by commas.
pub(super) fn put_list<T>(
    sql: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(&mut Vec<u8>, T),
) {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            put(sql, ", ");
        }
        each(sql, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(packets: &Packets) -> Vec<String> {
        packets.packets.iter().map(|packet| String::from_utf8_lossy(&packet.sql).into_owned()).collect()
    }

    #[test]
    fn rows_share_a_statement_and_statements_a_packet() {
        let mut packets = Packets::default();
        let shape = Shape { head: "D IN (", between: ", ", tail: ")" };
        packets.many(shape, &[1_i64, 2, -3], |sql, row| int(sql, *row));
        packets.one(|sql| {
            put(sql, "U ");
            hex(sql, b"\x00'\\;");
        });
        assert_eq!(texts(&packets), ["D IN (1, 2, -3);\nU x'00275c3b';\n"]);
        assert_eq!(packets.packets[0].expected, [Some(3), Some(1)]);
    }

    #[test]
    fn large_rows_go_in_packets_of_their_own() {
        let mut packets = Packets::default();
        let shape = Shape { head: "I ", between: ",", tail: "" };
        let row = vec![7; PACKET_BYTES_MAX];
        packets.many(shape, &[&row, &row, &row], |sql, row| hex(sql, row));
        assert_eq!(packets.packets.len(), 3);
        let few: Vec<i64> = (0..1200).collect();
        let mut packets = Packets::default();
        packets.many(shape, &few, |sql, row| int(sql, *row));
        assert_eq!(packets.packets[0].expected, [500, 500, 200].map(Some));
    }
}
