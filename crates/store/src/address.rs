//! The address of a store: separates Punctual's parameters from those of the database driver.
//!
//! `postgres://user@host/name?sslmode=require&durability=relaxed&shards=16`: the last two are ours and are removed.

use punctual_core::ids::SHARDS_MAX;

use crate::{Error, Result};

/// What an acknowledged commit survives. Anything weaker than `Full` has to be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A commit is on the disk when it returns.
    #[default]
    Full,
    /// A commit survives a crash of the process; a power loss may lose the last ones. For fast tests.
    Relaxed,
}

impl Durability {
    pub fn as_str(self) -> &'static str {
        match self {
            Durability::Full => "full",
            Durability::Relaxed => "relaxed",
        }
    }
}

/// An address without Punctual's own parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) url: String,
    /// `None` means the address does not set it.
    pub(crate) durability: Option<Durability>,
    pub(crate) shards: Option<u16>,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Address> {
        let mut address = Address { url: url.to_owned(), durability: None, shards: None };
        let Some((before, query)) = url.split_once('?') else { return Ok(address) };
        let mut rest = Vec::new();
        for parameter in query.split('&') {
            match parameter.split_once('=') {
                Some(("durability", "full")) => address.durability = Some(Durability::Full),
                Some(("durability", "relaxed")) => address.durability = Some(Durability::Relaxed),
                Some(("durability", other)) => {
                    return Err(Error::Unusable(format!(
                        "durability is `full` or `relaxed`, not `{other}`: correct the address of the store"
                    )));
                }
                Some(("shards", number)) => address.shards = Some(shards(number)?),
                _ => rest.push(parameter),
            }
        }
        address.url =
            if rest.is_empty() { before.to_owned() } else { format!("{before}?{}", rest.join("&")) };
        Ok(address)
    }
}

fn shards(number: &str) -> Result<u16> {
    let shards = number.parse().ok().filter(|shards| (1..=SHARDS_MAX).contains(shards));
    shards.ok_or_else(|| {
        Error::Unusable(format!(
            "a store has 1 to {SHARDS_MAX} shards, not `{number}`: correct the address of the store"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, rest: &str, durability: Option<Durability>, shards: Option<u16>) {
        let expected = Address { url: rest.to_owned(), durability, shards };
        assert_eq!(Address::parse(url).unwrap(), expected);
    }

    #[test]
    fn what_is_ours_is_taken_out_of_the_address() {
        check("postgres://h/d", "postgres://h/d", None, None);
        check("mysql://h/d?durability=relaxed", "mysql://h/d", Some(Durability::Relaxed), None);
        check("p://h?a=1&shards=16&b&durability=full", "p://h?a=1&b", Some(Durability::Full), Some(16));
    }

    #[test]
    fn what_is_ours_and_makes_no_sense_is_refused() {
        for url in ["p://h?durability=some", "p://h?shards=0", "p://h?shards=1025", "p://h?shards=many"] {
            let refused = Address::parse(url).unwrap_err().to_string();
            assert!(refused.contains("correct the address"), "{refused}");
        }
    }
}
