//! Mail, by the clock of the database. It does not wait for a disk: mail that a crash loses is asked for again.

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::ids::SessionId;

use super::backend::{Backend, Purpose, Scope, work};
use super::connection::{Ask, ask};
use super::queries::mail as queries;
use crate::Result;
use crate::mail::{Mail, MailPosition, Mailboxes};

#[async_trait]
impl<B: Backend> Mailboxes for B {
    async fn send_mail(&self, mail: &[Mail], kept: Duration) -> Result<()> {
        let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX / 2);
        let send = |Mail { to, from, number, body }: Mail| ask!(queries::SEND, to.0, from.0, number, body);
        let mut asks = vec![ask!(queries::DROP_OLD, kept)];
        asks.extend(mail.iter().cloned().map(send));
        self.run(Purpose::Mail, Scope::Statement, work!(|c| c.execute(&asks).await.map(|_| ()))).await
    }

    async fn receive_mail(&self, to: SessionId, taken: &[MailPosition], limit: usize) -> Result<Vec<Mail>> {
        let take = |place: &MailPosition| ask!(queries::TAKE, to.0, place.from.0, place.number);
        let taken: Vec<Ask<'static>> = taken.iter().map(take).collect();
        let receive = work!(|c| {
            c.execute(&taken).await?;
            c.all(ask!(queries::RECEIVE, to.0, limit), |row| {
                let (from, number) = (SessionId(row.int(0)?), row.int(1)?);
                Ok(Mail { to, from, number, body: row.bytes(2)?.to_vec() })
            })
            .await
        });
        self.run(Purpose::Mail, Scope::Statement, receive).await
    }
}
