//! Parses requests from the bytes that have arrived so far.
//!
//! The decoder remembers its position, so a request that arrives in a thousand pieces is scanned once. A
//! request is split off the buffer as a whole and its arguments are spans in it: nothing is copied. A request
//! that is too long is skipped as it arrives; after it the client may go on. After a malformed request it may
//! not, because the start of the next request is unknown.

use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};
use smallvec::SmallVec;

use super::{
    BULK_BYTES_MAX, BULK_BYTES_READ, COUNT_BYTES_MAX, INLINE_BYTES_MAX, ITEMS_MAX, REQUEST_BYTES_MAX,
    STRANGER_BULK_BYTES_MAX, STRANGER_ITEMS_MAX, inline,
};

/// The arguments of a request, of which the first is the command. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    bytes: Bytes,
    words: Spans,
}

/// Start and end of each argument; most requests have few.
pub(super) type Spans = SmallVec<[(u32, u32); 8]>;

impl Request {
    pub(super) fn new(bytes: Bytes, words: Spans) -> Request {
        Request { bytes, words }
    }

    #[expect(clippy::len_without_is_empty, reason = "a request has at least its command")]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// An argument by index; empty beyond the last.
    pub fn word(&self, number: usize) -> &[u8] {
        self.words.get(number).map_or(&[], |span| self.at(span))
    }

    /// The arguments from this index on.
    pub fn words(&self, from: usize) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.words.get(from..).unwrap_or_default().iter().map(|span| self.at(span))
    }

    /// Its size in memory.
    pub fn weight(&self) -> usize {
        self.bytes.len()
    }

    /// A copy in its own memory, so that the receive buffer can be freed.
    #[must_use]
    pub fn copied(&self) -> Request {
        Request { bytes: Bytes::copy_from_slice(&self.bytes), words: self.words.clone() }
    }

    fn at(&self, (start, end): &(u32, u32)) -> &[u8] {
        self.bytes.get(range(*start, *end)).unwrap_or_default()
    }
}

fn range(start: u32, end: u32) -> Range<usize> {
    start as usize..end as usize
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    Request(Request),
    /// The request was skipped; the next one can be parsed.
    TooLong,
}

/// The input is not a request, and the start of the next one is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("too big inline request")]
    LongLine,
    #[error("unbalanced quotes in request")]
    Quotes,
    #[error("too big mbulk count string")]
    LongItems,
    #[error("invalid multibulk length")]
    Items,
    #[error("unauthenticated multibulk length")]
    StrangersItems,
    #[error("expected '$', got '{}'", shown(*.0))]
    NoBulk(u8),
    #[error("too big bulk count string")]
    LongBulk,
    #[error("invalid bulk length")]
    Bulk,
    #[error("unauthenticated bulk length")]
    StrangersBulk,
    #[error("expected an end of line after a bulk string")]
    NoEnd,
}

/// An error is one line of text, so other bytes are replaced.
fn shown(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '?' }
}

/// How large a request may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    is_stranger: bool,
}

impl Limits {
    pub const KNOWN: Limits = Limits { is_stranger: false };
    /// Before authentication: enough for AUTH and HELLO.
    pub const STRANGER: Limits = Limits { is_stranger: true };
}

#[derive(Debug)]
pub struct Decoder {
    /// How far the current request has been scanned.
    at: usize,
    words: Spans,
    /// Arguments still to come. Zero means that no request has begun.
    left: usize,
    /// The length of the current argument. `None` means that it is not known yet.
    bulk: Option<usize>,
    /// Whether the request is too long and is being skipped.
    passing: bool,
    limits: Limits,
}

impl Decoder {
    pub fn new(limits: Limits) -> Decoder {
        Decoder { at: 0, words: Spans::new(), left: 0, bulk: None, passing: false, limits }
    }

    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Whether a part of a request was already taken out of the buffer.
    pub fn is_begun(&self) -> bool {
        self.left > 0
    }

    /// The next request, split off the buffer. `None` means that more bytes are needed.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Decoded>, Malformed> {
        while self.left == 0 {
            let request = match buffer.first() {
                None => return Ok(None),
                Some(b'*') => self.begin(buffer)?,
                Some(_) => self.line(buffer)?,
            };
            match request {
                Begun::NotYet => return Ok(None),
                Begun::Nothing | Begun::Items => {}
                Begun::Whole(request) => return Ok(Some(Decoded::Request(request))),
            }
        }
        while self.left > 0 {
            if !self.item(buffer)? {
                return Ok(None);
            }
        }
        let words = std::mem::take(&mut self.words);
        let bytes = buffer.split_to(std::mem::take(&mut self.at)).freeze();
        Ok(Some(if std::mem::take(&mut self.passing) {
            Decoded::TooLong
        } else {
            Decoded::Request(Request::new(bytes, words))
        }))
    }

    /// Parses `*3`, the number of arguments. An empty array is no request.
    fn begin(&mut self, buffer: &mut BytesMut) -> Result<Begun, Malformed> {
        let (items, end) = match length(&buffer[1..]) {
            Length::NotYet => return Ok(Begun::NotYet),
            Length::Long => return Err(Malformed::LongItems),
            Length::Wrong => return Err(Malformed::Items),
            Length::Of(items, end) => (items, end),
        };
        buffer.advance(1 + end);
        match usize::try_from(items) {
            Ok(items) if items > ITEMS_MAX => Err(Malformed::Items),
            Ok(items) if items > STRANGER_ITEMS_MAX && self.limits.is_stranger => {
                Err(Malformed::StrangersItems)
            }
            Ok(items) if items > 0 => {
                self.left = items;
                Ok(Begun::Items)
            }
            _ => Ok(Begun::Nothing),
        }
    }

    /// Parses the next argument. `false` means that it is incomplete.
    fn item(&mut self, buffer: &mut BytesMut) -> Result<bool, Malformed> {
        let bulk = match self.bulk {
            Some(bulk) => bulk,
            None => match self.bulk_length(buffer)? {
                Some(bulk) => bulk,
                None => return Ok(false),
            },
        };
        if self.passing {
            // Skip the bytes that are here; the line end is checked as usual.
            let gone = bulk.min(buffer.len());
            buffer.advance(gone);
            self.bulk = Some(bulk - gone);
            if gone < bulk || buffer.len() < 2 {
                return Ok(false);
            }
            check_end(&buffer[..2])?;
            buffer.advance(2);
        } else {
            let (end, next) = (self.at + bulk, self.at + bulk + 2);
            let Some(ending) = buffer.get(end..next) else { return Ok(false) };
            check_end(ending)?;
            self.words.push((place(self.at), place(end)));
            self.at = next;
        }
        self.bulk = None;
        self.left -= 1;
        Ok(true)
    }

    /// Parses `$5`, the length of the next argument.
    fn bulk_length(&mut self, buffer: &mut BytesMut) -> Result<Option<usize>, Malformed> {
        let here = &buffer[self.at..];
        match here.first() {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => return Err(Malformed::NoBulk(*other)),
        }
        let (bulk, end) = match length(&here[1..]) {
            Length::NotYet => return Ok(None),
            Length::Long => return Err(Malformed::LongBulk),
            Length::Wrong => return Err(Malformed::Bulk),
            Length::Of(bulk, end) => (bulk, end),
        };
        let bulk = usize::try_from(bulk).ok().filter(|bulk| *bulk <= BULK_BYTES_READ);
        let bulk = bulk.ok_or(Malformed::Bulk)?;
        if bulk > STRANGER_BULK_BYTES_MAX && self.limits.is_stranger {
            return Err(Malformed::StrangersBulk);
        }
        self.at += 1 + end;
        if bulk > BULK_BYTES_MAX || self.at + bulk > REQUEST_BYTES_MAX {
            self.passing = true;
            self.words = Spans::new();
        }
        if self.passing {
            buffer.advance(std::mem::take(&mut self.at));
        }
        self.bulk = Some(bulk);
        Ok(Some(bulk))
    }

    /// Parses a typed request.
    fn line(&mut self, buffer: &mut BytesMut) -> Result<Begun, Malformed> {
        let within = buffer.len().min(INLINE_BYTES_MAX);
        let found = buffer.get(self.at..within).unwrap_or_default().iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|end| self.at + end) else {
            if buffer.len() >= INLINE_BYTES_MAX {
                return Err(Malformed::LongLine);
            }
            self.at = within;
            return Ok(Begun::NotYet);
        };
        self.at = 0;
        let line = buffer.split_to(end + 1);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (bytes, words) = inline::split(line).ok_or(Malformed::Quotes)?;
        Ok(if words.is_empty() { Begun::Nothing } else { Begun::Whole(Request::new(bytes.into(), words)) })
    }
}

enum Begun {
    NotYet,
    Nothing,
    Items,
    Whole(Request),
}

enum Length {
    NotYet,
    Long,
    Wrong,
    /// The number, and the length of its line.
    Of(i64, usize),
}

/// Parses a number and its line end.
fn length(bytes: &[u8]) -> Length {
    let within = bytes.get(..COUNT_BYTES_MAX).unwrap_or(bytes);
    let Some(end) = within.iter().position(|byte| *byte == b'\r') else {
        return if bytes.len() >= COUNT_BYTES_MAX { Length::Long } else { Length::NotYet };
    };
    match (number(&bytes[..end]), bytes.get(end + 1)) {
        (None, _) => Length::Wrong,
        (Some(_), None) => Length::NotYet,
        (Some(number), Some(b'\n')) => Length::Of(number, end + 2),
        (Some(_), Some(_)) => Length::Wrong,
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    // Neither `+5` nor `05`: a length has one form.
    let (is_negative, digits) = match digits.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, digits),
    };
    if digits.is_empty() || (digits.len() > 1 && digits.first() == Some(&b'0')) {
        return None;
    }
    let mut number: i64 = 0;
    for digit in digits {
        let digit = digit.is_ascii_digit().then_some(i64::from(digit.wrapping_sub(b'0')))?;
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    Some(if is_negative { -number } else { number })
}

fn check_end(ending: &[u8]) -> Result<(), Malformed> {
    if ending == b"\r\n" { Ok(()) } else { Err(Malformed::NoEnd) }
}

/// A position in a request, which always fits into 32 bits.
pub(super) fn place(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
