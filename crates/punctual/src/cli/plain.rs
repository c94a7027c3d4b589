//! Makes the output of a program safe for a terminal.
//!
//! A terminal obeys control sequences: a program could set its title, move the cursor, or type input for the
//! user. So only text, line ends, tabs and colours pass; everything else is replaced by a harmless character.
//! Output arrives in pieces that end anywhere, so a character or a sequence may continue in the next piece.

/// Longer than any sequence that only sets colours.
const SEQUENCE_MAX: usize = 32;
const UNREADABLE: char = char::REPLACEMENT_CHARACTER;
/// Shown instead of an escape character.
const ESCAPE_PICTURE: char = '␛';
const COLOURS_OFF: &str = "\u{1b}[0m";

#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// The beginning of an incomplete character.
    bytes: Vec<u8>,
    /// The beginning of an incomplete sequence, with its escape.
    sequence: String,
    has_colours: bool,
}

impl Plain {
    /// The safe text, up to the last complete character or sequence.
    pub(crate) fn show(&mut self, bytes: &[u8]) -> String {
        self.bytes.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.bytes);
        let mut shown = String::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (text, broken) = match str::from_utf8(rest) {
                Ok(text) => (text, None),
                Err(error) => {
                    let text = str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default();
                    (text, Some(error.error_len()))
                }
            };
            text.chars().for_each(|c| self.take(c, &mut shown));
            rest = &rest[text.len()..];
            match broken {
                None => {}
                Some(Some(length)) => {
                    self.take(UNREADABLE, &mut shown);
                    rest = &rest[length..];
                }
                Some(None) => {
                    self.bytes = rest.to_vec();
                    break;
                }
            }
        }
        shown
    }

    /// The incomplete rest, and a reset of the colours.
    pub(crate) fn finish(mut self) -> String {
        let mut shown = String::new();
        self.give_up_sequence(&mut shown);
        if !self.bytes.is_empty() {
            shown.push(UNREADABLE);
        }
        if self.has_colours {
            shown.push_str(COLOURS_OFF);
        }
        shown
    }

    fn take(&mut self, c: char, shown: &mut String) {
        if !self.sequence.is_empty() {
            let goes_on = match self.sequence.len() {
                1 => c == '[',
                length => length < SEQUENCE_MAX && (c.is_ascii_digit() || c == ';' || c == ':'),
            };
            if goes_on {
                self.sequence.push(c);
                return;
            }
            if c == 'm' && self.sequence.len() > 1 {
                self.has_colours = true;
                shown.push_str(&self.sequence);
                shown.push(c);
                self.sequence.clear();
                return;
            }
            self.give_up_sequence(shown);
        }
        match c {
            '\u{1b}' => self.sequence.push(c),
            '\n' | '\r' | '\t' => shown.push(c),
            // Show control characters as ^A, as terminals do.
            '\0'..='\u{1f}' => shown.extend(['^', char::from(c as u8 + b'@')]),
            '\u{7f}'..='\u{9f}' => shown.push(UNREADABLE),
            // These change the text direction, so that the text looks different from what it is.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.push(UNREADABLE);
            }
            c => shown.push(c),
        }
    }

    /// Shows an unknown sequence as text instead of passing it on.
    fn give_up_sequence(&mut self, shown: &mut String) {
        if let Some(rest) = self.sequence.strip_prefix('\u{1b}') {
            shown.push(ESCAPE_PICTURE);
            shown.push_str(rest);
        }
        self.sequence.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(printed: &[u8], expected: &str) {
        // However the bytes are cut into pieces, the same is shown.
        for size in 1..=printed.len().max(1) {
            let mut plain = Plain::default();
            let mut shown: String = printed.chunks(size).map(|piece| plain.show(piece)).collect();
            shown += &plain.finish();
            assert_eq!(shown, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn text_line_ends_and_colours_get_through() {
        check("héllo 汉字\t1\r\n".as_bytes(), "héllo 汉字\t1\r\n");
        check(b"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m\x1b[0m");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        check(b"\x1b]0;title\x07", "␛]0;title^G");
        check(b"\x1b[2J\x1b[H", "␛[2J␛[H");
        check(b"\x1b[6n", "␛[6n");
        check(b"\x1bPq\x1b\\", "␛Pq␛\\");
        check(b"a\x08b\x00\x7f", "a^Hb^@\u{FFFD}");
        check("\u{9b}31m \u{202e}txt".as_bytes(), "\u{FFFD}31m \u{FFFD}txt");
        check(b"\x9b2J", "\u{FFFD}2J");
        check(b"\x1b\x1b[31", "␛␛[31");
        check(format!("\x1b[{}m", "1;".repeat(40)).as_bytes(), &format!("␛[{}m", "1;".repeat(40)));
    }

    #[test]
    fn bytes_that_are_no_text_are_marked() {
        check(b"\xff\xfe\xe6\xb1", "\u{FFFD}\u{FFFD}\u{FFFD}");
    }
}
