//! Output of attempts.

use punctual_core::log::{CHUNK_BYTES_MAX, Chunk, Stream};

use super::attempt::{attempt, read_attempt, read_instant};
use super::{Malformed, v1};

pub fn chunk(chunk: Chunk) -> v1::LogChunk {
    let stream = match chunk.stream {
        Stream::Out => v1::LogStream::Out,
        Stream::Err => v1::LogStream::Err,
        Stream::Note => v1::LogStream::Note,
    };
    v1::LogChunk {
        attempt: Some(attempt(chunk.run, chunk.token)),
        number: chunk.number,
        at: chunk.at.as_millis(),
        stream: stream.into(),
        bytes: chunk.bytes,
    }
}

pub fn read_chunk(said: v1::LogChunk) -> Result<Chunk, Malformed> {
    let stream = match said.stream() {
        v1::LogStream::Out => Stream::Out,
        v1::LogStream::Err => Stream::Err,
        v1::LogStream::Note => Stream::Note,
        v1::LogStream::Unspecified => return Err(Malformed::missing("logs.stream")),
    };
    let (run, token) = read_attempt(said.attempt)?;
    if said.bytes.len() > CHUNK_BYTES_MAX {
        return Err(Malformed::new("logs.bytes", format!("at most {CHUNK_BYTES_MAX} bytes a chunk")));
    }
    let at = read_instant("logs.at", said.at)?;
    Ok(Chunk { run, token, number: said.number, at, stream, bytes: said.bytes })
}
