//! The id of a message as text: the same string over the Redis protocol, in REST and in runs, on every node.
//!
//! ```text
//!  D-00000000-AAabcdefghijklmnopqrstuv-05a1
//!    │        │ │                      └ minutes to live, odd if it is delivered again until it is acknowledged
//!    │        │ └ queue (32 bits), number (63 bits), check (37 bits)
//!    │        └ shard (12 bits)
//!    └ shard again, in hexadecimal
//! ```
//!
//! Disque puts the first digits of a node id after `D-`, and some clients connect to the node with these digits. Here a
//! message may move to another node, so the digits name its shard: no node has them, and clients then prefer no node
//! (decision 015). Only the 24 characters are read back. The check tells our ids from those made elsewhere, which are
//! well-formed and unknown.

use std::fmt;
use std::time::Duration;

use super::{MessageId, QueueNumber};
use crate::hash;

pub const ID_BYTES: usize = 40;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const HEX: &[u8; 16] = b"0123456789abcdef";
/// Where the 24 characters begin and end.
const MIDDLE: std::ops::Range<usize> = 11..35;
const CHECK_BITS: u32 = 37;
const NUMBER_BITS: u32 = 63;

/// The text of an id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IdText([u8; ID_BYTES]);

/// The text is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Invalid Job ID format.")]
pub struct BadId;

impl IdText {
    pub fn new(message: MessageId, ttl: Duration, at_most_once: bool) -> IdText {
        let mut text = [b'-'; ID_BYTES];
        text[0] = b'D';
        write_hex(&mut text[2..10], u32::from(message.shard().0));
        let bits = packed(message);
        for (place, shift) in text[MIDDLE].iter_mut().zip((0..24).rev().map(|at| at * 6)) {
            *place = ALPHABET[bits.sextet(shift)];
        }
        let minutes = u16::try_from(ttl.as_secs() / 60).unwrap_or(u16::MAX);
        let minutes = if at_most_once { minutes & !1 } else { minutes | 1 };
        write_hex(&mut text[36..], u32::from(minutes));
        IdText(text)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for IdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for IdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Fills `place` with the last hexadecimal digits of a number.
fn write_hex(place: &mut [u8], number: u32) {
    for (digit, at) in place.iter_mut().rev().zip(0..) {
        *digit = HEX[(number >> (4 * at) & 15) as usize];
    }
}

/// The message with this id. `None` means that this store never gave it out.
pub fn parse_id(text: &[u8]) -> Result<Option<MessageId>, BadId> {
    let is_id = text.len() == ID_BYTES
        && text.first() == Some(&b'D')
        && [1, 10, 35].iter().all(|at| text.get(*at) == Some(&b'-'));
    if !is_id {
        return Err(BadId);
    }
    Ok(unpacked(text.get(MIDDLE).unwrap_or_default()))
}

/// 144 bits: the upper 16 and the rest.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bits {
    high: u16,
    low: u128,
}

impl Bits {
    /// Six bits from `shift` on.
    fn sextet(self, shift: u32) -> usize {
        let low = if shift < 128 { self.low >> shift } else { 0 };
        let high = match shift {
            128.. => u128::from(self.high) >> (shift - 128),
            123..128 => u128::from(self.high) << (128 - shift),
            _ => 0,
        };
        usize::try_from((low | high) & 63).unwrap_or(0)
    }
}

/// From the highest bit: shard 12, queue 32, number 63, check 37.
fn packed(message: MessageId) -> Bits {
    let number = message.number.unsigned_abs() & (u64::MAX >> 1);
    let (queue, shard) = (u128::from(message.queue.0), u128::from(message.shard().0));
    let low = queue << (NUMBER_BITS + CHECK_BITS) | u128::from(number) << CHECK_BITS | check(message);
    // The shard is above the 132 bits of the rest, of which four are in `high`.
    Bits { high: u16::try_from(queue >> 28 | shard << 4).unwrap_or(0), low }
}

fn unpacked(middle: &[u8]) -> Option<MessageId> {
    let mut bits = Bits { high: 0, low: 0 };
    for character in middle {
        let sextet = u8::try_from(ALPHABET.iter().position(|known| known == character)?).ok()?;
        bits.high = bits.high << 6 | u16::try_from(bits.low >> 122).unwrap_or(0);
        bits.low = bits.low << 6 | u128::from(sextet);
    }
    let queue = u128::from(bits.high & 15) << 28 | bits.low >> (NUMBER_BITS + CHECK_BITS);
    let number = bits.low >> CHECK_BITS & u128::from(u64::MAX >> 1);
    let message =
        MessageId { queue: QueueNumber(u32::try_from(queue).ok()?), number: i64::try_from(number).ok()? };
    (packed(message) == bits).then_some(message)
}

fn check(message: MessageId) -> u128 {
    let hash = hash::stable(&[b"message", &message.queue.0.to_le_bytes(), &message.number.to_le_bytes()]);
    u128::from(hash >> (64 - CHECK_BITS))
}
