//! A worker as routes see it.

use std::sync::Arc;

use punctual_core::ids::WorkerId;
use punctual_core::worker::Announcement;

/// The load of a worker's machine, as last reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub cpu_percent: u8,
    pub memory_percent: u8,
}

/// A worker that takes assignments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present<'a> {
    pub id: &'a WorkerId,
    pub announced: &'a Arc<Announcement>,
    /// How many attempts of this node it holds.
    pub busy: usize,
    /// How many more assignments it takes from this node now.
    pub free: usize,
    pub load: Option<Load>,
    /// It drains: it takes no more assignments.
    pub is_draining: bool,
    /// It does not stop an attempt that it was told to stop, so it gets no assignments.
    pub is_stuck: bool,
    /// Whether it takes assignments at all, if it has a free slot.
    pub is_open: bool,
}
