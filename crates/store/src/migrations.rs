//! Checks that a database has had the migrations that this version knows, and no others.
//!
//! Migrations are numbered and never change once released. Each is recorded with a checksum, so that a database made by
//! an unknown version is detected.

use punctual_core::hash;

use crate::{Error, Result};

/// How many of the known migrations the database has had, from its (version, checksum) rows in order. An unknown
/// migration is an error.
pub(crate) fn check(known: &[&str], had: &[(i64, String)]) -> Result<usize> {
    for (index, (number, sum)) in had.iter().enumerate().take(known.len()) {
        if *number != version(index) || *sum != checksum(known[index]) {
            return Err(Error::Unusable(format!(
                "its schema {number} is not the one this version of Punctual knows: start the version that made it, or \
                 begin with a new store"
            )));
        }
    }
    if had.len() > known.len() {
        let (newest, known) = (had.len(), known.len());
        return Err(Error::Unusable(format!(
            "it was written by a newer version of Punctual (schema {newest}, this one knows {known}): start that \
             version, or restore a backup made before the upgrade"
        )));
    }
    Ok(had.len())
}

pub(crate) fn version(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX).saturating_add(1)
}

pub(crate) fn checksum(sql: &str) -> String {
    format!("{:016x}", hash::stable(&[sql.as_bytes()]))
}
