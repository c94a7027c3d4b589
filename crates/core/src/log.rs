//! The output of attempts, in chunks: a worker reads it, a store keeps it, an endpoint shows it.

use std::fmt;
use std::str::FromStr;

use crate::Timestamp;
use crate::ids::{RunId, Token};

/// The size of one chunk at most: it is one row of a store and one event of a live log.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// Output kept of one run, all attempts and both streams together; more is cut with a mark.
pub const RUN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The first words of the note that marks where output was cut.
pub const CUT_MARK: &str = "output cut here";

/// Some output of one attempt. Chunks end where the program paused, not at the end of a line or a character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub run: RunId,
    pub token: Token,
    /// From 0, without gaps, over all streams of the attempt.
    pub number: u32,
    pub at: Timestamp,
    pub stream: Stream,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
    /// A remark by Punctual, such as where output was cut.
    Note,
}

/// The position of a chunk in the output of its run, over all attempts. As text `token-number`: the cursor with which a
/// reader continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkPosition {
    pub token: Token,
    pub number: u32,
}

impl Chunk {
    pub fn place(&self) -> ChunkPosition {
        ChunkPosition { token: self.token, number: self.number }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a place in a log; places are the ids of its events, like 4294967297-12")]
pub struct NotAPlace(String);

impl fmt::Display for ChunkPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.token, self.number)
    }
}

impl FromStr for ChunkPosition {
    type Err = NotAPlace;

    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        // Stores keep tokens as signed numbers, so a larger one was never given out.
        let number =
            |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok());
        let place = text.split_once('-').and_then(|(token, within)| {
            let token = number(token)?.and_then(|token: i64| u64::try_from(token).ok())?;
            let within = number(within)?.and_then(|within| u32::try_from(within).ok())?;
            Some(ChunkPosition { token: Token(token), number: within })
        });
        place.ok_or_else(|| NotAPlace(text.chars().take(40).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_as_it_is_written_and_nothing_else_is_one() {
        let place = ChunkPosition { token: Token((7 << 32) + 1), number: u32::MAX };
        assert_eq!(place.to_string().parse::<ChunkPosition>().unwrap(), place);
        for text in [
            "",
            "1",
            "-",
            "1-",
            "-1",
            "1-2-3",
            "+1-2",
            "1-+2",
            "1-4294967296",
            "9223372036854775808-0",
            " 1-2",
        ] {
            assert!(text.parse::<ChunkPosition>().is_err(), "{text}");
        }
    }
}
