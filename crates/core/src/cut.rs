//! A text cut to its limit, with a mark that says so.

use std::borrow::Cow;

const MARK: &str = "[…] ";

/// Keeps the end, which usually holds the result of a program, and marks the cut.
pub fn keep_end(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let from = text.len() - max.saturating_sub(MARK.len());
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    Cow::Owned(format!("{MARK}{}", &text[from..]))
}

/// Whether a text may have been cut by [`keep_end`].
pub fn is_cut(text: &str) -> bool {
    text.starts_with(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_over_its_limit_is_cut_with_a_mark() {
        let long = "é".repeat(100);
        let cut = keep_end(&long, 50);
        assert!(cut.starts_with("[…] é") && cut.len() <= 50, "{cut}");
        assert_eq!(keep_end("short", 50), "short");
        assert!(is_cut(&cut) && !is_cut("short"));
    }
}
