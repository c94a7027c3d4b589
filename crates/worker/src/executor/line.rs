//! Limits the length of lines in the log.
//!
//! A line ends with a newline or, as in a progress bar, with a carriage return. A longer line is cut at the limit,
//! between two characters, and marked; output continues with the next line. The result of a run has its own limit.

use punctual_core::limits::LINE_BYTES_MAX;

use super::output::CUT_MARK;

/// A cut line is longer than the limit by this much.
pub(super) const MARK_BYTES: usize = CUT_MARK.len() + 1;

/// The state of the current line of a stream.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Its bytes so far.
    length: usize,
    is_cut: bool,
}

impl Lines {
    /// Appends a piece to the log text; returns how many bytes were left out.
    pub(crate) fn add(&mut self, piece: &[u8], to: &mut Vec<u8>) -> usize {
        if !self.is_cut && self.length + piece.len() <= LINE_BYTES_MAX {
            // The usual case, also for many short lines: no line can be too long.
            to.extend_from_slice(piece);
            self.length = match piece.iter().rposition(ends_line) {
                Some(end) => piece.len() - end - 1,
                None => self.length + piece.len(),
            };
            return 0;
        }
        let mut left_out = 0;
        for part in piece.split_inclusive(ends_line) {
            let (text, end) = match part {
                [text @ .., b'\n' | b'\r'] => (text, &part[text.len()..]),
                text => (text, &[][..]),
            };
            left_out += self.go_on(text, to);
            if !end.is_empty() {
                to.extend_from_slice(end);
                *self = Lines::default();
            }
        }
        left_out
    }

    fn go_on(&mut self, text: &[u8], to: &mut Vec<u8>) -> usize {
        if self.is_cut {
            return text.len();
        }
        let room = LINE_BYTES_MAX - self.length;
        if text.len() <= room {
            to.extend_from_slice(text);
            self.length += text.len();
            return 0;
        }
        let kept = between_characters(text, room);
        to.extend_from_slice(&text[..kept]);
        to.push(b' ');
        to.extend_from_slice(CUT_MARK.as_bytes());
        self.is_cut = true;
        text.len() - kept
    }
}

fn ends_line(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// The last position up to `at` that is not inside a UTF-8 character: at most three bytes back.
fn between_characters(text: &[u8], at: usize) -> usize {
    let begins = |at: &usize| text.get(*at).is_none_or(|byte| byte & 0xC0 != 0x80);
    (at.saturating_sub(3)..=at).rev().find(begins).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &str = " […]";

    /// The pieces, whole and byte by byte, give this log and leave out this many bytes.
    fn check(printed: &[u8], log: &[u8], left_out: usize) {
        for size in [printed.len().max(1), 1, 1000, LINE_BYTES_MAX + 1] {
            let (mut lines, mut to) = (Lines::default(), Vec::new());
            let missing: usize = printed.chunks(size).map(|piece| lines.add(piece, &mut to)).sum();
            assert!(to == log, "in pieces of {size}: {} bytes instead of {}", to.len(), log.len());
            assert_eq!(missing, left_out, "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_longer_than_its_limit_is_cut_with_a_mark() {
        let whole = "x".repeat(LINE_BYTES_MAX);
        check(b"", b"", 0);
        check(b"a\n\nb", b"a\n\nb", 0);
        check(format!("{whole}\nnext\n").as_bytes(), format!("{whole}\nnext\n").as_bytes(), 0);
        check(format!("{whole}y\nnext\n").as_bytes(), format!("{whole}{MARK}\nnext\n").as_bytes(), 1);
        let two = format!("{whole}yyyy\n{whole}zz\nlast");
        check(two.as_bytes(), format!("{whole}{MARK}\n{whole}{MARK}\nlast").as_bytes(), 6);
    }

    #[test]
    fn a_line_without_an_end_is_kept_to_its_limit_whatever_it_is_made_of() {
        for byte in [0, b'x', 0xFF] {
            let kept = [&vec![byte; LINE_BYTES_MAX][..], MARK.as_bytes()].concat();
            check(&vec![byte; 10 * LINE_BYTES_MAX], &kept, 9 * LINE_BYTES_MAX);
        }
    }

    #[test]
    fn a_progress_bar_is_not_one_endless_line() {
        let bar = "42% ======\r".repeat(LINE_BYTES_MAX);
        check(bar.as_bytes(), bar.as_bytes(), 0);
    }

    #[test]
    fn a_line_is_cut_between_two_characters() {
        let (mut lines, mut to) = (Lines::default(), Vec::new());
        let left_out = lines.add("汉".repeat(LINE_BYTES_MAX).as_bytes(), &mut to);
        let text = String::from_utf8(to).unwrap();
        assert_eq!(text, "汉".repeat(LINE_BYTES_MAX / 3) + MARK);
        assert_eq!(left_out, 3 * LINE_BYTES_MAX - LINE_BYTES_MAX / 3 * 3);
    }
}
