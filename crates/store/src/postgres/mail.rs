//! Mail, by the server's clock. It does not wait for a disk: mail that a crash loses is asked for again.

use std::time::Duration;

use punctual_core::ids::SessionId;

use super::doors::rows_max;
use super::link::ask;
use super::queries::mail;
use super::{Postgres, rows};
use crate::Result;
use crate::mail::{Mail, Place};

impl Postgres {
    pub(super) async fn post(&self, all: &[Mail], kept: Duration) -> Result<()> {
        let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX / 2);
        let mut asks = vec![ask!(mail::DROP_OLD, kept)];
        let send = |one: &Mail| ask!(mail::SEND, one.to.0, one.from.0, one.number, one.body.clone());
        asks.extend(all.iter().map(send));
        self.log.take().await?.write(asks).await?;
        Ok(())
    }

    pub(super) async fn collect(&self, to: SessionId, taken: &[Place], limit: usize) -> Result<Vec<Mail>> {
        let mut link = self.log.take().await?;
        if !taken.is_empty() {
            let from: Vec<i64> = taken.iter().map(|place| place.from.0).collect();
            let numbers: Vec<i64> = taken.iter().map(|place| place.number).collect();
            link.write(vec![ask!(mail::TAKE, to.0, from, numbers)]).await?;
        }
        let found = link.read(ask!(mail::RECEIVE, to.0, rows_max(limit))).await?;
        let read = found.iter().map(|row| {
            Ok(Mail {
                to,
                from: SessionId(rows::get(row, 0)?),
                number: rows::get(row, 1)?,
                body: rows::get(row, 2)?,
            })
        });
        read.collect()
    }
}
