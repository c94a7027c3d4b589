//! Checks the server's durability settings, on every connection that commits.

use super::connection::{PgConnection, request};
use super::failure::Failure;
use crate::sql::value::Row;
use crate::{Durability, Error, Result};

/// PostgreSQL 13, the oldest version that was still maintained when this was written.
const VERSION_MIN: i64 = 130_000;

const SETTINGS: &str = "SELECT current_setting('server_version_num')::int4, current_setting('server_version'), \
     current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')";

pub(super) async fn check(connection: &mut PgConnection, wanted: Durability) -> Result<()> {
    let answer = connection.ask(request!(SETTINGS)).await.map_err(Failure::reading)?;
    let Some(row) = answer.rows.first() else { return Ok(()) };
    let row: &dyn Row = row;
    if row.int(0)? < VERSION_MIN {
        let version = row.text(1)?;
        return Err(Error::Unusable(format!("PostgreSQL {version} is too old: Punctual needs 13 or newer")));
    }
    if wanted == Durability::Relaxed {
        return Ok(());
    }
    for (column, setting) in [(2, "fsync"), (3, "full_page_writes"), (4, "synchronous_commit")] {
        if row.text(column)? == "off" {
            return Err(Error::Unusable(format!(
                "the database has {setting} = off, so a commit would not be durable: set it to on, or add \
                 durability=relaxed to the address of the store to accept the loss"
            )));
        }
    }
    Ok(())
}
