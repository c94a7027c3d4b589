//! Mail, by the clock of the database. It does not wait for a disk: mail that a crash loses is asked for again.

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::ids::SessionId;

use super::backend::{Backend, Purpose, Scope, Work};
use super::connection::{Ask, Connection, ask};
use super::queries::mail as queries;
use crate::Result;
use crate::mail::{Mail, MailPosition, Mailboxes};

#[async_trait]
impl<B: Backend> Mailboxes for B {
    async fn send_mail(&self, mail: &[Mail], kept: Duration) -> Result<()> {
        let mail = mail.to_vec();
        self.run(Purpose::Mail, Scope::Statement, Box::new(move |c| Box::pin(send(c, mail, kept)))).await
    }

    async fn receive_mail(&self, to: SessionId, taken: &[MailPosition], limit: usize) -> Result<Vec<Mail>> {
        let taken = taken.to_vec();
        let work: Work<_> = Box::new(move |c| Box::pin(receive(c, to, taken, limit)));
        self.run(Purpose::Mail, Scope::Statement, work).await
    }
}

async fn send(c: &mut dyn Connection, mail: Vec<Mail>, kept: Duration) -> Result<()> {
    let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX / 2);
    let mut asks = vec![ask!(queries::DROP_OLD, kept)];
    let sends = mail.iter();
    asks.extend(
        sends.map(|Mail { to, from, number, body }| {
            ask!(queries::SEND, to.0, from.0, *number, body.as_slice())
        }),
    );
    c.execute(&asks).await.map(|_| ())
}

async fn receive(
    c: &mut dyn Connection,
    to: SessionId,
    taken: Vec<MailPosition>,
    limit: usize,
) -> Result<Vec<Mail>> {
    let asks: Vec<Ask<'_>> =
        taken.iter().map(|place| ask!(queries::TAKE, to.0, place.from.0, place.number)).collect();
    c.execute(&asks).await?;
    c.all(ask!(queries::RECEIVE, to.0, limit), |row| {
        Ok(Mail { to, from: SessionId(row.int(0)?), number: row.int(1)?, body: row.bytes(2)?.to_vec() })
    })
    .await
}
