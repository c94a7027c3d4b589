//! The text of a token: made here or chosen by an operator, shown once and never stored.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use punctual_store::token::Hash;
use sha2::{Digest, Sha256};

/// A prefix by which people and leak scanners recognise a token.
const PREFIX: &str = "pct_";
/// 256 bits.
const RANDOM_BYTES: usize = 32;
/// The minimum for a chosen token: as long as 128 bits in hexadecimal.
pub const SECRET_BYTES_MIN: usize = 32;
pub const SECRET_BYTES_MAX: usize = 256;
/// The minimum of different characters: a long text of few characters is easy to guess.
const DISTINCT_MIN: usize = 10;
/// Words from public examples and from attackers' word lists.
const KNOWN: [&str; 10] = [
    "default_token",
    "admin",
    "123456",
    "password",
    "changeme",
    "secret",
    "punctual",
    "token",
    "letmein",
    "example",
];

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a text is not accepted as a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Weak {
    #[error("this value stands in examples and in the lists of those who try them")]
    WellKnown,
    #[error("at least {SECRET_BYTES_MIN} characters are needed")]
    Short,
    #[error("at most {SECRET_BYTES_MAX} characters are taken")]
    Long,
    #[error("at least {DISTINCT_MIN} different characters are needed")]
    Monotonous,
    #[error("only visible ASCII characters can be sent in a header")]
    Unsendable,
}

impl Secret {
    /// A new token from the system's random numbers.
    pub fn new() -> Result<Secret, getrandom::Error> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random)?;
        let mut text = PREFIX.to_owned();
        for byte in random {
            // Writing into a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Secret(text))
    }

    /// A token that an operator chose.
    pub fn chosen(text: &str) -> Result<Secret, Weak> {
        let lower = text.to_ascii_lowercase();
        if KNOWN.iter().any(|known| is_made_of(&lower, known)) {
            return Err(Weak::WellKnown);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Weak::Unsendable);
        }
        match text.len() {
            0..SECRET_BYTES_MIN => Err(Weak::Short),
            SECRET_BYTES_MIN..=SECRET_BYTES_MAX => {
                let distinct: BTreeSet<u8> = text.bytes().collect();
                if distinct.len() < DISTINCT_MIN {
                    return Err(Weak::Monotonous);
                }
                Ok(Secret(text.to_owned()))
            }
            _ => Err(Weak::Long),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> Hash {
        hash(&self.0)
    }
}

/// Whether a text is one word, once or repeated.
fn is_made_of(text: &str, word: &str) -> bool {
    !text.is_empty() && text.split(word).all(str::is_empty)
}

pub(super) fn hash(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

/// Hides the text, because debug output ends up in logs.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_is_prefixed_long_and_like_no_other() {
        let (one, other) = (Secret::new().unwrap(), Secret::new().unwrap());
        assert!(one != other && one.as_str().starts_with("pct_"));
        assert_eq!(one.as_str().len(), "pct_".len() + 64);
        assert_eq!(Secret::chosen(one.as_str()).unwrap(), one, "what we make is good enough for us");
        assert!(!format!("{one:?}").contains(&one.as_str()[4..]));
    }

    #[test]
    fn what_everybody_knows_and_what_can_be_guessed_is_refused() {
        for (text, why) in [
            ("default_token", Weak::WellKnown),
            ("admin", Weak::WellKnown),
            ("Admin", Weak::WellKnown),
            ("123456123456123456123456123456123456", Weak::WellKnown),
            ("", Weak::Short),
            ("pct_0123456789abcdef", Weak::Short),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Weak::Monotonous),
            ("0123456789abcdef 0123456789abcdef", Weak::Unsendable),
            ("0123456789abcdef\u{e4}0123456789abcdef", Weak::Unsendable),
        ] {
            assert_eq!(Secret::chosen(text), Err(why), "{text}");
        }
        assert_eq!(Secret::chosen(&"0123456789abcdef".repeat(17)), Err(Weak::Long));
        assert!(Secret::chosen("0123456789abcdef0123456789abcdef").is_ok());
    }
}
