//! The worker: it takes attempts in hand, executes them, and says what became of them.
//!
//! It never sees a store. Orders come in batches and reports leave in batches, as they will over the network;
//! what a process prints goes to a [`LogSink`]. The modules, in reading order: what a node may order, the loop,
//! the book of attempts in hand, where output goes, how a task is executed.
//!
//! ```text
//! node ──Vec<Order>──▶ worker ──▶ attempts ──▶ executor/{noop,shell,process} ──▶ LogSink
//!      ◀─Vec<Report>──
//! ```

mod order;
mod worker;
mod attempts;
mod log;
mod executor;

pub use log::{LOG_BYTES_MAX, LogPiece, LogSink, PIECE_BYTES_MAX, Stream};
pub use order::{Closed, Handle};
pub use punctual_core::attempt::Order;
pub use worker::{Config, Error, GRACE, HEARTBEAT, Worker};
