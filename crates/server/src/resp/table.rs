//! The table of commands: name, arity and the right that each needs.
//!
//! Commands are found through the table, so a command without a row cannot exist and a row without a right
//! does not compile.

use std::pin::Pin;

use punctual_wire::resp::Request;

use super::commands as c;
use super::fault::Fault;
use super::session::Session;
use crate::routes::Right;

pub(super) type Done<'a> = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send + 'a>>;

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    One(for<'a> fn(&'a mut Session, &'a Request) -> Done<'a>),
    /// Runs consecutive requests together; it replies to each.
    Many(for<'a> fn(&'a mut Session, &'a [&'a Request]) -> Done<'a>),
}

#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    /// The number of arguments including the name; negative means at least that many.
    pub arity: i64,
    pub right: Right,
    pub summary: &'static str,
    /// Whether the command may block.
    pub(super) waits: bool,
    /// Whether its arguments are secret, and hidden from MONITOR and the slow log.
    pub(super) is_secret: bool,
    pub(super) kind: Kind,
}

impl Row {
    pub(super) fn takes(&self, words: usize) -> bool {
        let words = i64::try_from(words).unwrap_or(i64::MAX);
        if self.arity < 0 { words >= -self.arity } else { words == self.arity }
    }

    /// Whether the command changes something.
    pub(super) fn writes(&self) -> bool {
        matches!(self.right, Right::Run | Right::Edit)
    }
}

const fn row(name: &'static str, arity: i64, right: Right, kind: Kind, summary: &'static str) -> Row {
    Row { name, arity, right, summary, waits: false, is_secret: false, kind }
}

const fn waiting(row: Row) -> Row {
    Row { waits: true, ..row }
}

const fn secret(row: Row) -> Row {
    Row { is_secret: true, ..row }
}

macro_rules! one {
    ($($path:ident)::+) => {
        Kind::One(|session, request| Box::pin($($path)::+(session, request)))
    };
}

macro_rules! many {
    ($($path:ident)::+) => {
        Kind::Many(|session, requests| Box::pin($($path)::+(session, requests)))
    };
}

/// The most frequent first, because they are searched in this order.
static COMMANDS: [Row; 44] = [
    row("ADDJOB", -4, Right::Run, many!(c::addjob::many), "Adds a job to a queue"),
    waiting(row(
        "GETJOB",
        -2,
        Right::Run,
        one!(c::getjob::run),
        "Takes jobs out of queues, or waits for one",
    )),
    row("ACKJOB", -1, Right::Run, many!(c::ackjob::many), "Says that jobs are done"),
    row("FASTACK", -1, Right::Run, many!(c::fastack::many), "Says that jobs are done"),
    row("DELJOB", -1, Right::Run, many!(c::deljob::many), "Deletes jobs"),
    row("NACK", -1, Right::Run, one!(c::nack::run), "Puts jobs back that failed, at once or after a delay"),
    row("ENQUEUE", -1, Right::Run, one!(c::enqueue::run), "Puts jobs back into their queues"),
    row("DEQUEUE", -1, Right::Run, one!(c::dequeue::run), "Takes jobs out of their queues"),
    row("WORKING", 2, Right::Run, one!(c::working::run), "Asks for more time for a job"),
    row("SHOW", 2, Right::Read, one!(c::show::run), "Tells everything about a job"),
    row("QLEN", 2, Right::Read, one!(c::qlen::run), "Tells how long a queue is"),
    row("QPEEK", 3, Right::Read, one!(c::qpeek::run), "Shows jobs of a queue without taking them"),
    row("QSTAT", 2, Right::Read, one!(c::qstat::run), "Tells how a queue is"),
    row("QSCAN", -1, Right::Read, one!(c::qscan::run), "Lists queues page by page"),
    row("JSCAN", -1, Right::Read, one!(c::jscan::run), "Lists jobs page by page"),
    row("PAUSE", -3, Right::Edit, one!(c::pause::run), "Stops what goes into a queue or out of it"),
    row("QFLUSH", 2, Right::Edit, one!(c::qflush::run), "Deletes the jobs that are in a queue"),
    waiting(row("WAITJOB", -2, Right::Read, one!(c::waitjob::run), "Waits until jobs are done or gone")),
    row("MULTI", 1, Right::Read, one!(c::multi::multi), "Queues the commands that follow, until EXEC"),
    waiting(row(
        "EXEC",
        1,
        Right::Read,
        one!(c::multi::exec),
        "Runs the commands that were queued since MULTI",
    )),
    row(
        "DISCARD",
        1,
        Right::Read,
        one!(c::multi::discard),
        "Forgets the commands that were queued since MULTI",
    ),
    row("PING", -1, Right::Read, one!(c::ping::run), "Says that we are there"),
    secret(row("HELLO", -1, Right::Anyone, one!(c::hello::run), "Tells the nodes, or chooses the protocol")),
    secret(row("AUTH", -2, Right::Anyone, one!(c::auth::run), "Says who comes")),
    row("QUIT", -1, Right::Anyone, one!(c::quit::run), "Ends the connection"),
    row("INFO", -1, Right::Read, one!(c::info::run), "Tells how the node is"),
    row("CLUSTER", -2, Right::Read, one!(c::cluster::run), "Tells of the nodes"),
    row("TIME", 1, Right::Read, one!(c::time::run), "Tells the time"),
    row("SELECT", 2, Right::Read, one!(c::select::run), "Takes 0, for there is one database"),
    row("COMMAND", -1, Right::Read, one!(c::command::run), "Tells of the commands"),
    row("CLIENT", -2, Right::Read, one!(c::client::run), "Tells of the connections"),
    row("CONFIG", -2, Right::Admin, one!(c::config::run), "Tells and changes settings"),
    row("SLOWLOG", -2, Right::Admin, one!(c::slowlog::run), "Tells which commands took long"),
    row("LATENCY", -2, Right::Admin, one!(c::latency::run), "Has nothing to tell: latencies are in /metrics"),
    row("MONITOR", 1, Right::Admin, one!(c::monitor::run), "Tells every command as it comes"),
    row("DEBUG", -2, Right::Admin, one!(c::debug::run), "Deletes everything, where that is allowed"),
    row("SHUTDOWN", -1, Right::Admin, one!(c::shutdown::run), "Stops the node, where that is allowed"),
    row("LOADJOB", 2, Right::Admin, one!(c::loadjob::run), "Is refused: the store keeps the jobs"),
    row(
        "BGREWRITEAOF",
        1,
        Right::Admin,
        one!(c::bgrewriteaof::run),
        "Has nothing to do: the store keeps itself small",
    ),
    row("READONLY", 1, Right::Read, one!(c::ping::ok), "Does nothing"),
    row("READWRITE", 1, Right::Read, one!(c::ping::ok), "Does nothing"),
    row("ECHO", 2, Right::Read, one!(c::ping::echo), "Says a word back"),
    row("RESET", 1, Right::Anyone, one!(c::quit::reset), "Forgets all that this connection has said"),
    row("ROLE", 1, Right::Read, one!(c::info::role), "Says that this node takes writes"),
];

pub fn commands() -> &'static [Row] {
    &COMMANDS
}

pub(super) fn find(word: &[u8]) -> Option<(usize, &'static Row)> {
    COMMANDS.iter().enumerate().find(|(_, row)| word.eq_ignore_ascii_case(row.name.as_bytes()))
}
