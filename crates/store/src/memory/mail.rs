//! Mail that has not been taken yet.

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::ids::SessionId;

use super::Memory;
use super::tables::Tables;
use crate::mail::{Mail, MailPosition};
use crate::{Mailboxes, Result};

#[async_trait]
impl Mailboxes for Memory {
    async fn send_mail(&self, mail: &[Mail], kept: Duration) -> Result<()> {
        self.tables.lock().send(mail, kept, self.clock.now());
        Ok(())
    }

    async fn receive_mail(&self, to: SessionId, taken: &[MailPosition], limit: usize) -> Result<Vec<Mail>> {
        Ok(self.tables.lock().receive(to, taken, limit))
    }
}

impl Tables {
    pub(super) fn send(&mut self, mail: &[Mail], kept: Duration, now: Timestamp) {
        self.mail.retain(|_, (sent, _)| now.since(*sent) <= kept);
        for one in mail {
            self.mail.entry((one.to, one.place())).or_insert_with(|| (now, one.body.clone()));
        }
    }

    pub(super) fn receive(&mut self, to: SessionId, taken: &[MailPosition], limit: usize) -> Vec<Mail> {
        for place in taken {
            self.mail.remove(&(to, *place));
        }
        let all = self.mail.iter().filter(|((recipient, _), _)| *recipient == to).take(limit);
        all.map(|((_, MailPosition { from, number }), (_, body))| Mail {
            to,
            from: *from,
            number: *number,
            body: body.clone(),
        })
        .collect()
    }
}
