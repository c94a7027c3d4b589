//! Mail, by the server's clock.

use std::time::Duration;

use punctual_core::ids::SessionId;

use super::failure::{Failure, Moment};
use super::link::Held;
use super::queries::mail;
use super::{Mysql, rows};
use crate::Result;
use crate::mail::{Mail, Place};

impl Mysql {
    pub(super) async fn post(&self, all: &[Mail], kept: Duration) -> Result<()> {
        let mut held = self.logs.take().await?;
        let sent = post(&mut held, all, kept).await;
        held.finish(sent, Moment::Committing).await
    }

    pub(super) async fn collect(&self, to: SessionId, taken: &[Place], limit: usize) -> Result<Vec<Mail>> {
        let mut held = self.logs.take().await?;
        let found = collect(&mut held, to, taken, limit).await;
        held.finish(found, Moment::Reading).await
    }
}

async fn post(held: &mut Held<'_>, all: &[Mail], kept: Duration) -> Result<(), Failure> {
    let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX / 2);
    held.execute(mail::DROP_OLD, (kept,)).await?;
    for Mail { to, from, number, body } in all {
        held.execute(mail::SEND, (to.0, from.0, *number, body.as_slice())).await?;
    }
    Ok(())
}

async fn collect(
    held: &mut Held<'_>,
    to: SessionId,
    taken: &[Place],
    limit: usize,
) -> Result<Vec<Mail>, Failure> {
    for Place { from, number } in taken {
        held.execute(mail::TAKE, (to.0, from.0, *number)).await?;
    }
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    for row in held.rows(mail::RECEIVE, (to.0, limit)).await? {
        let (from, number) = (SessionId(rows::int(&row, 0)?), rows::int(&row, 1)?);
        found.push(Mail { to, from, number, body: rows::bytes(&row, 2)?.to_vec() });
    }
    Ok(found)
}
