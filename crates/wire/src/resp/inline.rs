//! Splits a typed line into arguments, with quotes and escapes as in `redis-cli`.

use super::request::{Spans, place};

/// The arguments joined, and the span of each. `None` means an open quote, or text directly after a closing quote.
pub(super) fn split(line: &[u8]) -> Option<(Vec<u8>, Spans)> {
    let (mut bytes, mut words) = (Vec::with_capacity(line.len()), Spans::new());
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some((bytes, words));
        }
        let start = bytes.len();
        rest = word(rest, &mut bytes)?;
        words.push((place(start), place(bytes.len())));
    }
}

/// Parses one argument and returns the rest.
fn word<'a>(mut rest: &'a [u8], into: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest.split_first() {
            None => return Some(rest),
            Some((byte, _)) if byte.is_ascii_whitespace() => return Some(rest),
            Some((b'"', quoted)) => return closed(double(quoted, into)?),
            Some((b'\'', quoted)) => return closed(single(quoted, into)?),
            Some((byte, behind)) => {
                into.push(*byte);
                rest = behind;
            }
        }
    }
}

/// A closing quote must end its argument.
fn closed(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(u8::is_ascii_whitespace).then_some(rest)
}

fn double<'a>(mut rest: &'a [u8], into: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', b'x', high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                into.push(hex(*high) << 4 | hex(*low));
                behind
            }
            [b'\\', escaped, behind @ ..] => {
                into.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                behind
            }
            [byte, behind @ ..] => {
                into.push(*byte);
                behind
            }
            [] => return None,
        };
    }
}

fn single<'a>(mut rest: &'a [u8], into: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\'', behind @ ..] => return Some(behind),
            [b'\\', b'\'', behind @ ..] => {
                into.push(b'\'');
                behind
            }
            [byte, behind @ ..] => {
                into.push(*byte);
                behind
            }
            [] => return None,
        };
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}
