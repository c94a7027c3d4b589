//! Checks that a database has had the migrations that this build knows, and no others.
//!
//! Migrations are numbered and never change once released. Each is recorded with a checksum, so that a database made by
//! another build is detected.

use punctual_core::hash;

use crate::{Error, Result};

/// How many of the known migrations the database has had, from its (version, checksum) rows in order. An unknown
/// migration is an error. `store` names the store in the message.
pub(crate) fn check(store: &str, known: &[&str], had: &[(i64, String)]) -> Result<usize> {
    for (index, (number, sum)) in had.iter().enumerate().take(known.len()) {
        if *number != version(index) || *sum != checksum(known[index]) {
            return Err(Error::Unusable(format!(
                "{store} was written by another build of Punctual: its schema {number} is not the one that this build \
                 knows. Start the build that wrote it, or begin with a new store"
            )));
        }
    }
    if had.len() > known.len() {
        let (newest, known) = (had.len(), known.len());
        return Err(Error::Unusable(format!(
            "{store} was written by a newer version of Punctual (schema {newest}, this one knows {known}): start that \
             version, or restore a backup made before the upgrade"
        )));
    }
    Ok(had.len())
}

/// The name of a store in a database server, for messages.
pub(crate) fn store_in(database: &str) -> String {
    format!("the store in the database `{database}`")
}

pub(crate) fn version(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX).saturating_add(1)
}

pub(crate) fn checksum(sql: &str) -> String {
    format!("{:016x}", hash::stable(&[sql.as_bytes()]))
}
