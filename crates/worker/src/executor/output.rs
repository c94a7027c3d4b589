//! Reads the output of a program: all of it into the log, its end into the result.

use std::collections::VecDeque;
use std::time::Duration;

use punctual_core::log::{CHUNK_BYTES_MAX, Stream};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::line::{Lines, MARK_BYTES};
use crate::log::Transcript;

/// Read size: small, because a thousand programs may be read at once.
const READ_BYTES: usize = 8 * 1024;
/// Maximum delay of output on its way to the log, even if the chunk is not full: people watch it.
pub(super) const FLUSH_AFTER: Duration = Duration::from_millis(200);
/// Marks a place where text was left out.
pub(super) const CUT_MARK: &str = "[…]";

/// Reads until the program closes its side, or until `enough` changes.
pub(super) async fn read(
    mut pipe: impl AsyncRead + Unpin,
    stream: Stream,
    transcript: &Transcript,
    tail: &mut Tail,
    mut enough: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; READ_BYTES];
    let (mut chunk, mut lines) = (Vec::new(), Lines::default());
    let mut flush_at = Instant::now();
    loop {
        let read = tokio::select! {
            biased;
            _ = enough.changed() => break,
            () = sleep_until(flush_at), if !chunk.is_empty() => {
                transcript.output(stream, std::mem::take(&mut chunk)).await;
                continue;
            }
            read = pipe.read(&mut buffer) => read,
        };
        // Treat a read error like the end of the stream.
        let Ok(bytes @ 1..) = read else { break };
        transcript.count_read(bytes);
        tail.push(&buffer[..bytes]);
        if chunk.is_empty() {
            flush_at = Instant::now() + FLUSH_AFTER;
        }
        transcript.left_out(lines.add(&buffer[..bytes], &mut chunk));
        // One read is shorter than the maximum line, so it adds at most one mark.
        if chunk.len() > CHUNK_BYTES_MAX - READ_BYTES - MARK_BYTES {
            transcript.output(stream, std::mem::take(&mut chunk)).await;
        }
    }
    if !chunk.is_empty() {
        transcript.output(stream, chunk).await;
    }
}

/// Writes a text into the log.
pub(super) async fn write(text: &[u8], transcript: &Transcript) {
    let (mut chunk, mut lines) = (Vec::new(), Lines::default());
    for part in text.chunks(CHUNK_BYTES_MAX / 4) {
        transcript.left_out(lines.add(part, &mut chunk));
        if chunk.len() > CHUNK_BYTES_MAX / 2 {
            transcript.output(Stream::Out, std::mem::take(&mut chunk)).await;
        }
    }
    if !chunk.is_empty() {
        transcript.output(Stream::Out, chunk).await;
    }
}

/// The last bytes of a stream.
#[derive(Debug)]
pub(super) struct Tail {
    /// A ring buffer with a fixed maximum, so nothing is moved.
    bytes: VecDeque<u8>,
    bytes_max: usize,
    is_cut: bool,
}

impl Tail {
    pub(super) fn new(bytes_max: usize) -> Self {
        Tail { bytes: VecDeque::new(), bytes_max, is_cut: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(self.bytes_max)..];
        let surplus = (self.bytes.len() + last.len()).saturating_sub(self.bytes_max);
        self.is_cut |= surplus > 0 || last.len() < bytes.len();
        self.bytes.drain(..surplus);
        self.bytes.extend(last);
    }

    /// As text without its last newline, at most `bytes_max` long, with a mark in front if the beginning is missing.
    pub(super) fn into_text(mut self) -> String {
        let bytes = &*self.bytes.make_contiguous();
        // Skip the rest of a character that the cut has split.
        let broken = if self.is_cut {
            bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count()
        } else {
            0
        };
        let text = String::from_utf8_lossy(&bytes[broken..]);
        let text = text.trim_end_matches(['\n', '\r']);
        if !self.is_cut && text.len() <= self.bytes_max {
            return text.to_owned();
        }
        let room = self.bytes_max - CUT_MARK.len() - 1;
        let start = text.ceil_char_boundary(text.len().saturating_sub(room));
        format!("{CUT_MARK} {}", &text[start..])
    }

    /// The last line that is not empty.
    pub(super) fn into_last_line(self) -> Option<String> {
        let text = self.into_text();
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }
}

/// Cuts a text to a maximum length, with a mark at its end.
pub(super) fn cut_end(text: String, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text;
    }
    let end = text.floor_char_boundary(bytes_max - CUT_MARK.len() - 1);
    format!("{} {CUT_MARK}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_tail(bytes_max: usize, pushed: &[&[u8]], expected: &str) {
        let mut tail = Tail::new(bytes_max);
        for bytes in pushed {
            tail.push(bytes);
        }
        let text = tail.into_text();
        assert_eq!(text, expected);
        assert!(text.len() <= bytes_max);
    }

    #[test]
    fn a_tail_keeps_the_end_and_marks_what_is_missing() {
        check_tail(16, &[b"short\n"], "short");
        check_tail(16, &[b"exactly sixteen."], "exactly sixteen.");
        check_tail(16, &[b"0123456789", b"abcdefghij"], "[…] abcdefghij");
        check_tail(16, &[b"x".repeat(100).as_slice(), b"0123456789"], "[…] 0123456789");
    }

    #[test]
    fn a_tail_is_text_whatever_was_printed() {
        check_tail(16, &["汉字汉字汉字".as_bytes()], "[…] 字汉字");
        check_tail(16, &[&[0xFF; 4]], "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}");
        check_tail(16, &[&[0xFF; 16]], "[…] \u{FFFD}\u{FFFD}\u{FFFD}");
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        let mut tail = Tail::new(100);
        tail.push(b"one\n  two \n\n \n");
        assert_eq!(tail.into_last_line().as_deref(), Some("two"));
        assert_eq!(Tail::new(100).into_last_line(), None);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut_end("汉字汉字".to_owned(), 12), "汉字汉字");
        assert_eq!(cut_end("汉字汉字汉".to_owned(), 12), "汉字 […]");
    }
}
