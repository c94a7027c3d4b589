//! Names of namespaces and jobs.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::limits::NAME_BYTES_MAX;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a name is needed")]
    Empty,
    #[error("at most {NAME_BYTES_MAX} characters, this has {0}")]
    TooLong(usize),
    #[error("`{text}` has the character `{bad}`; {allowed}")]
    Character { text: String, bad: char, allowed: &'static str },
    #[error("`{0}` has an empty segment; write payments or payments/clearing")]
    EmptySegment(String),
    #[error("`{0}` means a folder in an address, so it cannot be a name")]
    Dots(String),
}

/// A namespace. `payments/clearing` is inside `payments`; in a URL the slash is written as a dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Namespace(Arc<str>);

impl Namespace {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is this namespace, or inside it.
    pub fn is_in(&self, outer: &Namespace) -> bool {
        self.0.strip_prefix(&*outer.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// As written in a URL.
    pub fn dotted(&self) -> String {
        self.0.replace('/', ".")
    }

    pub fn from_dotted(text: &str) -> Result<Self, Error> {
        text.replace('.', "/").parse()
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Namespace(Arc::from("default"))
    }
}

impl FromStr for Namespace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        check_length(text)?;
        if text.split('/').any(str::is_empty) {
            return Err(Error::EmptySegment(text.to_owned()));
        }
        let allowed = "a namespace has a-z, 0-9, - and / between segments";
        check_characters(text, allowed, |c| {
            c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '/'
        })?;
        Ok(Namespace(Arc::from(text)))
    }
}

/// The name of a job, unique in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(Arc<str>);

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        check_length(text)?;
        if is_dots(text) {
            return Err(Error::Dots(text.to_owned()));
        }
        let allowed = "a name has A-Z, a-z, 0-9, dot, - and _";
        check_characters(text, allowed, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))?;
        Ok(Name(Arc::from(text)))
    }
}

/// Whether a text is `.` or `..`: HTTP clients remove these from the path of a URL.
pub(crate) fn is_dots(text: &str) -> bool {
    matches!(text, "." | "..")
}

fn check_length(text: &str) -> Result<(), Error> {
    match text.len() {
        0 => Err(Error::Empty),
        len if len > NAME_BYTES_MAX => Err(Error::TooLong(text.chars().count())),
        _ => Ok(()),
    }
}

fn check_characters(text: &str, allowed: &'static str, fits: impl Fn(char) -> bool) -> Result<(), Error> {
    match text.chars().find(|c| !fits(*c)) {
        Some(bad) => Err(Error::Character { text: text.to_owned(), bad, allowed }),
        None => Ok(()),
    }
}

macro_rules! as_text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }
    };
}
as_text!(Namespace);
as_text!(Name);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_lower_case_segments() {
        assert_eq!("payments/clearing".parse::<Namespace>().unwrap().dotted(), "payments.clearing");
        assert_eq!(Namespace::from_dotted("payments.clearing").unwrap().as_str(), "payments/clearing");
        for bad in ["", "Payments", "a//b", "/a", "a/", "a b", "支付", "a.b"] {
            assert!(bad.parse::<Namespace>().is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn a_job_name_refuses_what_a_url_or_a_shell_would_trip_over() {
        assert!("nightly-settlement_v1.2".parse::<Name>().is_ok());
        assert!("...".parse::<Name>().is_ok() && ".a".parse::<Name>().is_ok());
        for bad in ["", ".", "..", "a/b", "a b", "a\n", "naïve", &"x".repeat(129)] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?} was taken");
        }
    }
}
