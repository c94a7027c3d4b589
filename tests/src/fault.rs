//! What can be broken under a running node.

mod clock;
mod disk;
pub mod failpoint;
mod proxy;
mod syscall;

pub use clock::Clock;
pub use disk::SmallDisk;
pub use proxy::{Counts, Cut, Language, Proxy, Way, Whose};
pub use syscall::Injection;
