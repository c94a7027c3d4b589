//! Drives shards: a sans-IO [`Driver`], the loop that carries its inputs and outputs, and what tidies up behind them.

pub mod handle;
pub mod driver;
pub mod node;
pub mod retention;

pub use driver::{Driver, Input, Output};
pub use handle::{Failure, Handle};
pub use node::{Config, Link, Node, Reporter};
