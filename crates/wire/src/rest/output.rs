//! The output of a run as events: chunks, and an end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual_core::ids::RunId;
use punctual_core::log::{Chunk, ChunkPosition, Stream};
use serde::{Deserialize, Serialize};

use super::run::State;
use crate::text::{Instant, Text};

/// The media type of live logs and events.
pub const EVENT_STREAM: &str = "text/event-stream";

/// A chunk of output. A program may print any bytes: they are in `text` if possible, else in `base64`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChunk {
    /// The cursor, and the id of the event: `Last-Event-ID` continues after it.
    pub place: Text<ChunkPosition>,
    pub at: Instant,
    pub stream: LogStream,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    Stdout,
    Stderr,
    /// Written by Punctual, not by the program.
    Note,
}

/// No more output will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEnd {
    pub run: Text<RunId>,
    pub state: State,
}

impl From<Chunk> for LogChunk {
    fn from(chunk: Chunk) -> Self {
        let place = Text(chunk.place());
        let stream = match chunk.stream {
            Stream::Out => LogStream::Stdout,
            Stream::Err => LogStream::Stderr,
            Stream::Note => LogStream::Note,
        };
        // JSON writes most control characters as six bytes, so a chunk full of them would become too large.
        let is_plain = |bytes: &[u8]| bytes.iter().all(|byte| *byte >= 0x20 || b"\t\n\r\x1b".contains(byte));
        let (text, base64) = match String::from_utf8(chunk.bytes) {
            Ok(text) if is_plain(text.as_bytes()) => (Some(text), None),
            Ok(text) => (None, Some(STANDARD.encode(text))),
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        LogChunk { place, at: Text(chunk.at), stream, text, base64 }
    }
}

impl LogChunk {
    /// The printed bytes. `None` means an encoding of a newer server.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match (self.text, self.base64) {
            (Some(text), _) => Some(text.into_bytes()),
            (None, Some(coded)) => STANDARD.decode(coded).ok(),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::ids::Token;

    use super::*;

    #[test]
    fn any_bytes_come_back_as_they_were_and_none_swell() {
        let everything: Vec<u8> = (0..=255).collect();
        for bytes in
            [b"plain\n".to_vec(), "汉字".into(), vec![0; 1000], everything, b"\xe6\xb1".to_vec(), vec![]]
        {
            let (token, at) = (Token(7), Timestamp::from_millis(0));
            let chunk =
                Chunk { run: RunId(1), token, number: 3, at, stream: Stream::Err, bytes: bytes.clone() };
            let json = serde_json::to_string(&LogChunk::from(chunk)).unwrap();
            assert!(json.len() < 200 + 2 * bytes.len(), "{json}");
            let read: LogChunk = serde_json::from_str(&json).unwrap();
            assert_eq!((read.place.to_string().as_str(), read.stream), ("7-3", LogStream::Stderr));
            assert_eq!(read.into_bytes(), Some(bytes));
        }
    }
}
