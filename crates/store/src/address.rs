//! The address of a store: separates Punctual's parameters from those of the database driver.
//!
//! `postgres://user@host/name?sslmode=require&durability=relaxed&shards=16`: the last two are ours and are removed.

use punctual_core::ids::{SHARDS_MAX, SessionId};

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

/// How a store on a database server is opened.
#[derive(Debug, Clone, Copy)]
pub struct ServerOptions {
    /// How many shards a new store gets. An existing store keeps its number.
    pub shards: u16,
    pub durability: Durability,
    /// The session that owns the connections: a node that takes over its shards ends their open transactions. `None`
    /// means they cannot be ended this way.
    pub session: Option<SessionId>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions { shards: 64, durability: Durability::Full, session: None }
    }
}

/// An address without Punctual's own parameters, and their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) durability: Durability,
    pub(crate) shards: u16,
}

impl Address {
    /// What the address does not say is taken from the options.
    pub(crate) fn parse(url: &str, options: ServerOptions) -> Result<Address> {
        let ServerOptions { shards, durability, .. } = options;
        let mut address = Address { url: url.to_owned(), durability, shards };
        if let Some((before, query)) = url.split_once('?') {
            let mut rest = Vec::new();
            for parameter in query.split('&') {
                match parameter.split_once('=') {
                    Some(("durability", "full")) => address.durability = Durability::Full,
                    Some(("durability", "relaxed")) => address.durability = Durability::Relaxed,
                    Some(("durability", other)) => {
                        return Err(Error::Unusable(format!(
                            "durability is `full` or `relaxed`, not `{other}`: correct the address of the store"
                        )));
                    }
                    Some(("shards", number)) => {
                        address.shards = number.parse().map_err(|_| wrong_shards(&number))?;
                    }
                    _ => rest.push(parameter),
                }
            }
            address.url =
                if rest.is_empty() { before.to_owned() } else { format!("{before}?{}", rest.join("&")) };
        }
        check_shards(address.shards)?;
        Ok(address)
    }
}

pub(crate) fn check_shards(shards: u16) -> Result<()> {
    if (1..=SHARDS_MAX).contains(&shards) { Ok(()) } else { Err(wrong_shards(&shards)) }
}

fn wrong_shards(number: &dyn std::fmt::Display) -> Error {
    Error::Unusable(format!(
        "a store has 1 to {SHARDS_MAX} shards, not `{number}`: correct the settings or the address of the store"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, rest: &str, durability: Durability, shards: u16) {
        let expected = Address { url: rest.to_owned(), durability, shards };
        assert_eq!(Address::parse(url, ServerOptions::default()).unwrap(), expected);
    }

    #[test]
    fn what_is_ours_is_taken_out_of_the_address() {
        check("postgres://h/d", "postgres://h/d", Durability::Full, 64);
        check("mysql://h/d?durability=relaxed", "mysql://h/d", Durability::Relaxed, 64);
        check("p://h?a=1&shards=16&b&durability=full", "p://h?a=1&b", Durability::Full, 16);
    }

    #[test]
    fn what_is_ours_and_makes_no_sense_is_refused() {
        for url in ["p://h?durability=some", "p://h?shards=0", "p://h?shards=1025", "p://h?shards=many"] {
            let refused = Address::parse(url, ServerOptions::default()).unwrap_err().to_string();
            assert!(refused.contains("correct the"), "{refused}");
        }
        assert!(Address::parse("p://h", ServerOptions { shards: 0, ..ServerOptions::default() }).is_err());
    }
}
