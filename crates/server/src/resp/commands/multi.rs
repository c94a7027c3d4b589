//! MULTI, EXEC and DISCARD: commands are queued first and then run one after the other.
//!
//! As in Redis: if a command is refused while it is queued, EXEC replies EXECABORT and nothing runs. If a
//! command fails while EXEC runs, its error is in the reply and the other commands still run: there is no
//! rollback. Unlike in Redis, commands of other clients may run in between. GETJOB and WAITJOB do not wait.

use punctual_wire::resp::{Decoded, Request};

use crate::resp::fault::Fault;
use crate::resp::session::{Mode, Session};
use crate::resp::settings::{FLUSH_BYTES, OUTPUT_BYTES_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_MAX};
use crate::resp::table::Row;

/// The state of a connection's transaction.
#[derive(Debug, Default)]
pub(in crate::resp) enum Transaction {
    #[default]
    None,
    /// After MULTI: commands are queued.
    Queueing { requests: Vec<Decoded>, bytes: usize },
    /// A command was refused while queueing: EXEC will refuse too.
    Broken,
    /// EXEC runs the queued commands.
    Running,
}

impl Transaction {
    /// Whether MULTI was called and EXEC not yet.
    pub(in crate::resp) fn is_open(&self) -> bool {
        matches!(self, Transaction::Queueing { .. } | Transaction::Broken)
    }

    pub(in crate::resp) fn is_running(&self) -> bool {
        matches!(self, Transaction::Running)
    }

    /// Marks that a command was refused: the queued commands will never run.
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

/// Commands that run at once, also between MULTI and EXEC.
pub(in crate::resp) fn acts_at_once(row: &Row) -> bool {
    matches!(row.name, "MULTI" | "EXEC" | "DISCARD" | "QUIT" | "RESET")
}

/// Queues a command that the client may run.
pub(in crate::resp) fn queue(session: &mut Session, row: &Row, request: &Request) -> Result<(), Fault> {
    // These change the connection itself, which is not possible inside the reply of EXEC.
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
