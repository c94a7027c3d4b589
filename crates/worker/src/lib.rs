//! The worker: it takes attempts in hand, executes them, and says what became of them.
//!
//! It never sees a store. Orders come in batches and reports leave in batches, as they will over the network;
//! what a process prints goes to a [`LogSink`]. The modules, in reading order: what a node may order, the loop,
//! the book of attempts in hand, who may fill the next free slot, where output goes, where requests may go, which functions there are, how a task is
//! executed, who watches over its processes; and how it works for nodes over the network.
//!
//! ```text
//! node ──Vec<Order>──▶ worker ──▶ attempts ──▶ executor/{noop,shell,process,http,function} ──▶ LogSink
//!      ◀─Vec<Report>──                       └──▶ guardian ──▶ command
//! ```

mod causes;
mod order;
mod worker;
mod attempts;
mod lender;
mod log;
mod egress;
pub mod function;
mod executor;
pub mod guardian;
mod procfs;
pub mod session;

pub use egress::{Egress, NotARule, Resolver, Rule};
pub use lender::{Lender, STARVED_AFTER, UNUSED_MAX};
pub use log::LogSink;
pub use order::{Closed, Handle};
pub use punctual_core::attempt::Order;
pub use punctual_core::log::CUT_MARK;
pub use worker::{Config, Error, GRACE, HEARTBEAT, Worker};
