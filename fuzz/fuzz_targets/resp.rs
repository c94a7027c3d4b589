//! Any bytes are requests or are refused, and come to the same however they are cut; an id that is taken is written as
//! it was given.
//!
//! Input: one byte of how long the pieces are, then what a client sends.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use punctual_wire::resp::{Decoded, Decoder, JobId, Limits, Malformed, Request, parse_id};

fuzz_target!(|input: &[u8]| {
    let Some((piece, sent)) = input.split_first() else { return };
    let limits = if *piece < 128 { Limits::KNOWN } else { Limits::STRANGER };
    let (whole, end) = read(sent, sent.len().max(1), limits);
    let (pieces, other_end) = read(sent, usize::from(piece % 128) + 1, limits);
    assert_eq!((&whole, end), (&pieces, other_end));
    for request in whole.iter().flatten() {
        for word in request.words(0) {
            let Ok(Some(message)) = parse_id(word) else { continue };
            let again = JobId::new(message, std::time::Duration::ZERO, true);
            // The rest only tells people where the message is, and how long it lives.
            assert_eq!(again.as_bytes()[10..35], word[10..35]);
        }
    }
});

/// The requests of what was sent, none for one that is too long, and how it ended.
fn read(sent: &[u8], piece: usize, limits: Limits) -> (Vec<Option<Request>>, Option<Malformed>) {
    let (mut decoder, mut buffer, mut requests) = (Decoder::new(limits), BytesMut::new(), Vec::new());
    for piece in sent.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(None) => break,
                Ok(Some(Decoded::Request(request))) => requests.push(Some(request)),
                Ok(Some(Decoded::TooLong)) => requests.push(None),
                Err(malformed) => return (requests, Some(malformed)),
            }
        }
    }
    (requests, None)
}
