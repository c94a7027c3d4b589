//! The worker: it takes assignments from nodes, executes them, and reports their outcomes.
//!
//! It has no access to a store. The modules, in reading order: the [`driver`], which decides and does no I/O; the loop,
//! which executes what the driver decides; the two transports to nodes ([`in_process`](Worker) and [`session`]); the
//! log of attempts, the egress rules for HTTP calls, registered functions, executors, and the guardian of child
//! processes.
//!
//! ```text
//! node ──orders──▶ transport ──Input──▶ driver ──Output──▶ executor/{shell,process,http,function} ──▶ LogSink
//!      ◀─reports──           ◀─Output──                  └──▶ guardian ──▶ command
//! ```

mod causes;
pub mod driver;
mod worker;
mod in_process;
mod log;
mod egress;
pub mod function;
mod executor;
pub mod guardian;
mod procfs;
pub mod session;

pub use driver::HEARTBEAT;
pub use egress::{Egress, NotARule, Refused, Resolver, Rule};
pub use executor::{Caller, Reply};
pub use in_process::{Closed, Handle, Worker};
pub use log::LogSink;
pub use punctual_core::attempt::Order;
pub use punctual_core::log::CUT_MARK;
pub use worker::{Config, Error, GRACE};
