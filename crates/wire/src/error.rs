//! An error in a text that a user wrote: which field, what to do about it, and its position.

use std::borrow::Cow;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: Kind,
    /// The path of the field, such as `schedule[1].cron`. Empty means the whole document.
    pub field: String,
    pub message: String,
    /// The position. `None` means that the text has no lines.
    pub place: Option<Place>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The text is not JSON or YAML, or it exceeds a limit.
    Malformed,
    /// The text can be parsed, but a field has an invalid value.
    Invalid,
}

/// Both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl Error {
    pub fn malformed(message: impl Into<String>, place: Option<Place>) -> Self {
        Error { kind: Kind::Malformed, field: String::new(), message: message.into(), place }
    }

    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Error { kind: Kind::Invalid, field: field.into(), message: message.into(), place: None }
    }

    /// The same error one level further out: `cron` becomes `schedule.cron`.
    #[must_use]
    pub fn under(mut self, parent: &str) -> Self {
        self.field = join(parent, &self.field);
        self
    }
}

/// Joins two parts of a path; an index needs no dot before it.
fn join(parent: &str, child: &str) -> String {
    match (parent.is_empty(), child.is_empty()) {
        (true, _) => child.to_owned(),
        (_, true) => parent.to_owned(),
        _ if child.starts_with('[') => format!("{parent}{child}"),
        _ => format!("{parent}.{child}"),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{place}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", plain(&self.field))?;
        }
        f.write_str(&plain(&self.message))
    }
}

/// Makes user text safe to show: characters that move the cursor or change the text direction are escaped.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let tricks = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(tricks) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if tricks(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    Cow::Owned(plain)
}

impl std::error::Error for Error {}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl From<punctual_core::job::Invalid> for Error {
    fn from(invalid: punctual_core::job::Invalid) -> Self {
        Error::invalid(invalid.field, invalid.message)
    }
}
