//! What a message is called, over the Redis protocol and wherever else people see it.
//!
//! ```text
//!  D-1a2b3c4d-AAabcdefghijklmnopqrstuv-05a1
//!    │        │ │                      └ minutes to live, odd if it is delivered again until it is acknowledged
//!    │        │ └ queue (32 bits), number (63 bits), check (37 bits)
//!    │        └ shard (12 bits)
//!    └ the node that answered
//! ```
//!
//! Clients look at the node and at the last digit; everything else is for us. The check tells an id that we made from one
//! that somebody else did: the second is well-formed and unknown.

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

/// An id, ready to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IdText([u8; ID_BYTES]);

/// What was given is not an id at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Invalid Job ID format.")]
pub struct BadId;

impl IdText {
    /// `node`: the first characters of the name of the node that answers.
    pub fn new(node: [u8; 8], message: MessageId, ttl: Duration, at_most_once: bool) -> IdText {
        let mut text = [b'-'; ID_BYTES];
        text[0] = b'D';
        text[2..10].copy_from_slice(&node);
        let bits = packed(message);
        for (place, shift) in text[MIDDLE].iter_mut().zip((0..24).rev().map(|at| at * 6)) {
            *place = ALPHABET[bits.sextet(shift)];
        }
        let minutes = u16::try_from(ttl.as_secs() / 60).unwrap_or(u16::MAX);
        let minutes = if at_most_once { minutes & !1 } else { minutes | 1 };
        for (place, shift) in text[36..].iter_mut().zip([12, 8, 4, 0]) {
            *place = HEX[usize::from(minutes >> shift & 15)];
        }
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

/// Which message is meant; none: one that we never made.
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
    /// Six bits from this place on.
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

/// From above: shard 12, queue 32, number 63, check 37.
fn packed(message: MessageId) -> Bits {
    let number = message.number.unsigned_abs() & (u64::MAX >> 1);
    let (queue, shard) = (u128::from(message.queue.0), u128::from(message.shard().0));
    let low = queue << (NUMBER_BITS + CHECK_BITS) | u128::from(number) << CHECK_BITS | check(message);
    // The shard is above the 132 bits of the rest: four of its bits still fit below.
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
