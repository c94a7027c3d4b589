//! What can be broken under a running node.

mod clock;
mod disk;
pub mod failpoint;
mod syscall;

pub use clock::Clock;
pub use disk::SmallDisk;
pub use syscall::Injection;
