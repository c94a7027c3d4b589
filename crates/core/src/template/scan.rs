//! Finds the expressions in a text: each `{{` and its `}}`.
//!
//! Everything else is literal text, also `}}`, because JSON may end with it. Jinja's `{%` and `{#` are refused, because
//! an author who writes them expects them to work.

use super::Error;
use crate::limits::EXPRESSION_BYTES_MAX;

/// A part of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'a> {
    Literal(&'a str),
    /// An expression without its braces, and its byte offset in the text.
    Expression(&'a str, usize),
}

pub(super) fn scan(text: &str) -> Result<Vec<Piece<'_>>, Error> {
    let mut pieces = Vec::new();
    let mut from = 0;
    while let Some((at, mark)) = next_mark(text, from) {
        if mark != "{{" {
            let message = format!(
                "`{mark}` is not known: only expressions, {{{{ … }}}}; write {{{{ \"{mark}\" }}}} for the characters themselves"
            );
            return Err(Error { at, message });
        }
        if from < at {
            pieces.push(Piece::Literal(&text[from..at]));
        }
        let begin = at + mark.len();
        let end = end_of(text, begin).ok_or_else(|| Error {
            at,
            message: "`{{` has no `}}`; write {{ \"{{\" }} for the characters themselves".to_owned(),
        })?;
        pieces.push(Piece::Expression(checked(&text[begin..end], begin)?, begin));
        from = end + 2;
    }
    if from < text.len() {
        pieces.push(Piece::Literal(&text[from..]));
    }
    Ok(pieces)
}

fn next_mark(text: &str, from: usize) -> Option<(usize, &'static str)> {
    let marks = ["{{", "{%", "{#"].into_iter();
    marks.filter_map(|mark| text[from..].find(mark).map(|at| (from + at, mark))).min()
}

/// The first `}}` outside of quotes and of the expression's own braces.
fn end_of(text: &str, begin: usize) -> Option<usize> {
    let mut quote = None;
    let mut open = 0_usize;
    let mut bytes = text.bytes().enumerate().skip(begin).peekable();
    while let Some((at, byte)) = bytes.next() {
        match (quote, byte) {
            (Some(_), b'\\') => {
                bytes.next();
            }
            (Some(mark), _) if byte == mark => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'{') => open += 1,
            (None, b'}') if open > 0 => open -= 1,
            (None, b'}') if bytes.peek().is_some_and(|(_, next)| *next == b'}') => return Some(at),
            (None, _) => {}
        }
    }
    None
}

fn checked(source: &str, at: usize) -> Result<&str, Error> {
    if source.len() > EXPRESSION_BYTES_MAX {
        return Err(Error { at, message: format!("an expression has at most {EXPRESSION_BYTES_MAX} bytes") });
    }
    if source.starts_with(['-', '+']) {
        let message = "`{{-` is not known: nothing around an expression is trimmed; put a blank after `{{`";
        return Err(Error { at, message: message.to_owned() });
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_ends_at_its_own_braces() {
        let rows: [(&str, &[Piece<'_>]); 8] = [
            ("", &[]),
            ("plain }} text", &[Piece::Literal("plain }} text")]),
            ("a{{ b }}c", &[Piece::Literal("a"), Piece::Expression(" b ", 3), Piece::Literal("c")]),
            ("{{a}}{{b}}", &[Piece::Expression("a", 2), Piece::Expression("b", 7)]),
            ("{{ '}}' }}", &[Piece::Expression(" '}}' ", 2)]),
            (r#"{{ "\"}}" }}"#, &[Piece::Expression(r#" "\"}}" "#, 2)]),
            ("{{ {'a': {'b': 1}} }}", &[Piece::Expression(" {'a': {'b': 1}} ", 2)]),
            (
                "{\"a\":{{ x }}}",
                &[Piece::Literal("{\"a\":"), Piece::Expression(" x ", 7), Piece::Literal("}")],
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(scan(text).unwrap(), expected, "{text}");
        }
    }
}
