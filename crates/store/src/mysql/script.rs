//! Sends many statements in few packets.
//!
//! A commit is a few statements of many rows each, and its time is mostly round trips. So the statements are sent
//! together, and each is checked for the number of rows it must hit.
//!
//! The one surprise: values are part of the SQL text. They are numbers or hex, so no value can be read as SQL, whatever
//! the server's modes are.

use std::io::Write as _;

use mysql_async::prelude::Queryable;

use super::failure::Failure;
use super::link::{Held, answered};
use crate::Result;

/// Rows in one statement: with more, the optimizer may choose another plan than the primary key.
const ROWS_MAX: usize = 500;
/// Bytes in one packet, unless a single row is larger: the server accepts at least 16 MiB.
const PACKET_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Script {
    packets: Vec<Packet>,
}

#[derive(Debug, Default)]
struct Packet {
    sql: Vec<u8>,
    /// How many rows each statement must hit. `None` means any number.
    expected: Vec<Option<u64>>,
}

/// The result of a script.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Played {
    AsExpected,
    /// A statement hit an unexpected number of rows.
    Otherwise,
}

/// The parts from which a statement of many rows is composed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) head: &'static str,
    pub(super) between: &'static str,
    pub(super) tail: &'static str,
}

impl Script {
    /// Adds one statement that must hit `expected` rows.
    pub(super) fn one(
        &mut self,
        expected: u64,
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let packet = self.open();
        write(&mut packet.sql)?;
        packet.close(Some(expected));
        Ok(())
    }

    /// Adds one statement that may hit any number of rows.
    pub(super) fn any(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let packet = self.open();
        write(&mut packet.sql);
        packet.close(None);
    }

    /// Adds statements for rows of one kind, as few as possible. Every row must be hit.
    pub(super) fn many<T>(
        &mut self,
        shape: Shape,
        rows: &[T],
        write: impl FnMut(&mut Vec<u8>, &T) -> Result<()>,
    ) -> Result<()> {
        self.in_few(shape, rows, Some, write)
    }

    /// Like `many`, but the statements may hit any number of rows.
    pub(super) fn many_or_fewer<T>(
        &mut self,
        shape: Shape,
        rows: &[T],
        write: impl FnMut(&mut Vec<u8>, &T) -> Result<()>,
    ) -> Result<()> {
        self.in_few(shape, rows, |_| None, write)
    }

    fn in_few<T>(
        &mut self,
        shape: Shape,
        rows: &[T],
        expected: fn(u64) -> Option<u64>,
        mut write: impl FnMut(&mut Vec<u8>, &T) -> Result<()>,
    ) -> Result<()> {
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
                write(&mut packet.sql, row)?;
                count += 1;
            }
            packet.sql.extend_from_slice(shape.tail.as_bytes());
            packet.close(expected(count as u64));
        }
        Ok(())
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
    pub(super) async fn play(self, held: &mut Held<'_>) -> Result<Played, Failure> {
        for packet in self.packets {
            if !answered(packet.play(held)).await? {
                return Ok(Played::Otherwise);
            }
        }
        Ok(Played::AsExpected)
    }
}

impl Packet {
    fn close(&mut self, expected: Option<u64>) {
        self.sql.extend_from_slice(b";\n");
        self.expected.push(expected);
    }

    async fn play(self, held: &mut Held<'_>) -> mysql_async::Result<bool> {
        let mut result = held.conn().query_iter(self.sql).await?;
        let mut as_expected = true;
        for expected in self.expected {
            as_expected &= expected.is_none_or(|expected| result.affected_rows() == expected);
            result.next().await?;
        }
        result.drop_result().await?;
        Ok(as_expected)
    }
}

pub(super) fn put(sql: &mut Vec<u8>, text: &str) {
    sql.extend_from_slice(text.as_bytes());
}

pub(super) fn int(sql: &mut Vec<u8>, number: impl Into<i64>) {
    // Writing to memory does not fail.
    let _ = write!(sql, "{}", number.into());
}

pub(super) fn int_or_null(sql: &mut Vec<u8>, number: Option<impl Into<i64>>) {
    match number {
        Some(number) => int(sql, number),
        None => put(sql, "NULL"),
    }
}

pub(super) fn hex(sql: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    sql.reserve(2 * bytes.len() + 3);
    sql.extend_from_slice(b"x'");
    for byte in bytes {
        sql.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    sql.push(b'\'');
}

pub(super) fn hex_or_null(sql: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => hex(sql, bytes),
        None => put(sql, "NULL"),
    }
}

/// A name to compare with a column: as text, so that the column's index can be used.
pub(super) fn name(sql: &mut Vec<u8>, text: &str) {
    put(sql, "_utf8mb4 ");
    hex(sql, text.as_bytes());
}

/// Writes the items with `each`, separated by commas.
pub(super) fn list<T>(
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

    fn texts(script: &Script) -> Vec<String> {
        script.packets.iter().map(|packet| String::from_utf8_lossy(&packet.sql).into_owned()).collect()
    }

    #[test]
    fn rows_share_a_statement_and_statements_a_packet() {
        let mut script = Script::default();
        let shape = Shape { head: "D IN (", between: ", ", tail: ")" };
        script
            .many(shape, &[1_i64, 2, -3], |sql, row| {
                int(sql, *row);
                Ok(())
            })
            .unwrap();
        script
            .one(1, |sql| {
                put(sql, "U ");
                hex(sql, b"\x00'\\;");
                Ok(())
            })
            .unwrap();
        assert_eq!(texts(&script), ["D IN (1, 2, -3);\nU x'00275c3b';\n"]);
        assert_eq!(script.packets[0].expected, [Some(3), Some(1)]);
    }

    #[test]
    fn large_rows_go_in_packets_of_their_own() {
        let mut script = Script::default();
        let shape = Shape { head: "I ", between: ",", tail: "" };
        let row = vec![7; PACKET_BYTES_MAX];
        script
            .many(shape, &[&row, &row, &row], |sql, row| {
                hex(sql, row);
                Ok(())
            })
            .unwrap();
        assert_eq!(script.packets.len(), 3);
        let few: Vec<i64> = (0..1200).collect();
        let mut script = Script::default();
        script
            .many(shape, &few, |sql, row| {
                int(sql, *row);
                Ok(())
            })
            .unwrap();
        assert_eq!(script.packets[0].expected, [500, 500, 200].map(Some));
    }
}
