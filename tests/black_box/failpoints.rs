//! A process that dies at any point where dying matters (T-02, T-33's kind; R89): nothing is lost and nothing doubled.
//!
//! Every point of the binary (`punctual failpoints`) is walked over. `TIMES=20` walks twenty times, each time a little later.

mod load;
mod lives;
mod walk;
mod first_start;
mod standby;
mod successors;
