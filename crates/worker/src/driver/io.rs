//! What goes into the driver and what comes out of it.

use std::fmt;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Order, Outcome, Report};
use punctual_core::ids::{RunId, Token};
use punctual_core::run::{Cause, Reason};

/// The connection to one node. It stays the same when it is dialled again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    /// The node in the worker's own process.
    pub const IN_PROCESS: LinkId = LinkId(0);
}

/// One attempt of a run.
pub type Key = (RunId, Token);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For what people read.
    pub wall: Timestamp,
    /// For leases and waits: monotonic, since any fixed beginning.
    pub elapsed: Duration,
}

/// What a node tells about itself when it is dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    pub node: String,
    /// How often it wants a heartbeat.
    pub heartbeat: Duration,
    /// The addresses of the nodes of its cluster.
    pub members: Vec<String>,
}

/// Why an attempt is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Cancelled(Cause),
    /// A newer attempt of the same run was assigned.
    Superseded,
    Shutdown,
    /// The worker was told to take no more work.
    Drained,
    /// Its node has not heard the worker for a lease.
    Unheard,
}

impl Stop {
    /// Whether the worker gives the attempt up, and the run goes on elsewhere.
    pub fn is_yield(self) -> bool {
        matches!(self, Stop::Shutdown | Stop::Drained)
    }

    /// The time between the request to stop and the kill, where `usual` is the usual one.
    pub fn grace(self, usual: Duration) -> Duration {
        match self {
            // Another attempt may already be running.
            Stop::Unheard | Stop::Cancelled(Cause::UserNow) => Duration::ZERO,
            _ => usual,
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Cancelled(cause) => Reason::Cancelled(*cause).fmt(f),
            Stop::Superseded => f.write_str("a newer attempt took its place"),
            Stop::Shutdown => f.write_str("its worker shut down"),
            Stop::Drained => f.write_str("its worker was drained"),
            Stop::Unheard => f.write_str("no node has heard its worker for a lease"),
        }
    }
}

/// What happens to a worker. Of one connection it comes in order, and each order once.
#[derive(Debug)]
pub enum Input {
    /// A node was dialled, and wants to know who we are.
    Welcomed {
        link: LinkId,
        welcome: Welcome,
    },
    /// A node takes the worker.
    Admitted {
        link: LinkId,
    },
    Orders {
        link: LinkId,
        orders: Vec<Order>,
    },
    /// A node has heard this heartbeat.
    Heard {
        link: LinkId,
        beat: u64,
    },
    /// A node lists the addresses of its cluster.
    Members {
        link: LinkId,
        addresses: Vec<String>,
    },
    /// The connection is gone.
    Gone {
        link: LinkId,
    },
    /// An execution tells how far it is.
    Progress(Report),
    /// An execution has ended. `stopped` says why, if that was our doing.
    Ended {
        run: RunId,
        outcome: Outcome,
        stopped: Option<Stop>,
    },
    /// A chunk of output is on its way to a node.
    Printed(Key),
    /// A chunk of output is kept, or refused for good.
    OutputKept(Key),
    /// Take nothing more, and finish what there is within this time.
    Drain(Duration),
    /// Take nothing more, and stop what runs.
    Stop,
    /// Time has passed.
    Clock,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    Execute {
        assignment: Assignment,
        started_at: Timestamp,
    },
    Stop {
        run: RunId,
        why: Stop,
    },
    /// The checkpoint of the report with this number is stored.
    Saved {
        run: RunId,
        seq: u64,
    },
    Say {
        to: LinkId,
        report: Report,
    },
    /// Tell a node the name of this worker and its attempts.
    Announce {
        to: LinkId,
        holding: Vec<Key>,
    },
    Heartbeat {
        to: LinkId,
        beat: u64,
        holding: Vec<Key>,
    },
    Dial {
        link: LinkId,
        url: String,
    },
    /// Dial this node no more.
    Drop {
        link: LinkId,
    },
    /// This node is connected by another link already: leave it alone for a while.
    Unwanted {
        link: LinkId,
    },
    /// This node has not heard the worker for a lease: close the connection and dial again.
    HangUp {
        link: LinkId,
    },
}
