//! MULTI, EXEC and DISCARD: commands that are queued first and then run one after the other.
//!
//! As in Redis: a command that is refused while it is queued makes EXEC answer EXECABORT, and nothing runs. A command that
//! fails while EXEC runs has its error in the answer, and the others run all the same: there is no rollback. Unlike in
//! Redis, commands of other clients may run in between. GETJOB and WAITJOB do not wait.

use punctual_wire::resp::{Decoded, Request};

use crate::resp::fault::Fault;
use crate::resp::session::{Mode, Session};
use crate::resp::settings::{FLUSH_BYTES, OUTPUT_BYTES_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_MAX};
use crate::resp::table::Row;

/// Whether commands run at once.
#[derive(Debug, Default)]
pub(in crate::resp) enum Transaction {
    #[default]
    None,
    /// After MULTI: commands are queued.
    Queueing { requests: Vec<Decoded>, bytes: usize },
    /// A command was refused while it was to be queued: EXEC will refuse too.
    Broken,
    /// EXEC runs what was queued.
    Running,
}

impl Transaction {
    /// Whether a command is queued, or would be if none had been refused.
    pub(in crate::resp) fn is_open(&self) -> bool {
        matches!(self, Transaction::Queueing { .. } | Transaction::Broken)
    }

    pub(in crate::resp) fn is_running(&self) -> bool {
        matches!(self, Transaction::Running)
    }

    /// A command was refused. What was queued before it will never run.
    pub(in crate::resp) fn fail(&mut self) {
        if self.is_open() {
            *self = Transaction::Broken;
        }
    }

    fn push(&mut self, request: &Request) -> Result<(), Fault> {
        let Transaction::Queueing { requests, bytes } = self else { return Ok(()) };
        *bytes += request.weight();
        if requests.len() == TRANSACTION_MAX || *bytes > TRANSACTION_BYTES_MAX {
            return Err(Fault::of(format!(
                "ERR a transaction has at most {TRANSACTION_MAX} commands and {TRANSACTION_BYTES_MAX} bytes"
            )));
        }
        requests.push(Decoded::Request(request.copied()));
        Ok(())
    }
}

/// Commands that act at once, also between MULTI and EXEC.
pub(in crate::resp) fn acts_at_once(row: &Row) -> bool {
    matches!(row.name, "MULTI" | "EXEC" | "DISCARD" | "QUIT" | "RESET")
}

/// Queues a command that the caller may run.
pub(in crate::resp) fn queue(session: &mut Session, row: &Row, request: &Request) -> Result<(), Fault> {
    // They change the connection itself, in the middle of an answer.
    if matches!(row.name, "AUTH" | "CLIENT" | "HELLO" | "MONITOR" | "SHUTDOWN") {
        return Err(Fault::of(format!("ERR {} is not allowed in transactions", row.name)));
    }
    session.transaction.push(request)?;
    session.out.simple("QUEUED");
    Ok(())
}

pub(in crate::resp) async fn multi(session: &mut Session, _: &Request) -> Result<(), Fault> {
    if session.transaction.is_open() {
        return Err(Fault::new("ERR MULTI calls can not be nested"));
    }
    session.transaction = Transaction::Queueing { requests: Vec::new(), bytes: 0 };
    session.out.simple("OK");
    Ok(())
}

pub(in crate::resp) async fn discard(session: &mut Session, _: &Request) -> Result<(), Fault> {
    if !session.transaction.is_open() {
        return Err(Fault::new("ERR DISCARD without MULTI"));
    }
    session.transaction = Transaction::None;
    session.out.simple("OK");
    Ok(())
}

pub(in crate::resp) async fn exec(session: &mut Session, _: &Request) -> Result<(), Fault> {
    let requests = match std::mem::take(&mut session.transaction) {
        Transaction::Queueing { requests, .. } => requests,
        Transaction::Broken => {
            return Err(Fault::new("EXECABORT Transaction discarded because of previous errors."));
        }
        Transaction::None | Transaction::Running => return Err(Fault::new("ERR EXEC without MULTI")),
    };
    session.out.array(requests.len());
    session.transaction = Transaction::Running;
    let mut rest = requests.as_slice();
    while let Some(Decoded::Request(first)) = rest.first() {
        let done = session.requests(first, rest).await?;
        rest = rest.get(done..).unwrap_or_default();
        if session.out.len() > OUTPUT_BYTES_MAX {
            return Err(Fault::Gone);
        }
        if session.out.len() > FLUSH_BYTES && session.mode == Mode::On {
            session.send().await?;
        }
    }
    session.transaction = Transaction::None;
    Ok(())
}
