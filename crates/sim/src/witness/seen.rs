//! What a simulation went through: a quiet one proves nothing.

use std::ops::AddAssign;

macro_rules! seen {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct Seen {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl AddAssign for Seen {
            fn add_assign(&mut self, other: Seen) {
                $(self.$name += other.$name;)*
            }
        }

        impl Seen {
            /// Every count with its name.
            pub fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

seen! {
    crashes,
    /// Times a shard's memory was thrown away while the node lived.
    reloads,
    clock_steps,
    /// Times another leader took a shard away.
    usurped,
    pruned,
    /// Times a link to a worker was cut for a while.
    cuts,
    /// Times a worker linked itself to a node.
    links,
    /// Times a node stood still, and how often for longer than its lease while it led something.
    pauses,
    lapses,
    /// Times a shard went from one node to another, and how often because a node gave it away.
    takeovers,
    hand_overs,
    store_cuts,
    /// Times no node could reach the store for longer than a lease.
    outages,
    /// Recorded times that were compared with when a command or a report came.
    dated,
    /// Commands that were passed on to another node.
    forwarded,
    /// Messages of workers that overtook others, and that came again after a while.
    reordered,
    replayed,
    /// Times a worker died or stood still.
    worker_deaths,
    /// Attempts that a worker stopped because nobody had heard it for a lease.
    given_up,
    /// Attempts that began only when a new leader offered them again.
    offered_again,
    /// Fires that were looked at for being in time.
    timely,
    commits,
    failed_commits,
    unknown_commits,
    /// Commits that landed, or were fenced off, after everyone had stopped waiting for them.
    late_commits,
    late_commits_fenced,
    pages,
    fetches,
    lost_messages,
    doubled_messages,
    job_rows,
    fires,
    misfires,
    /// Due times whose run or recorded skip was looked for and found.
    due_times,
    skips,
    held,
    starts,
    lost_attempts,
    retries,
    timeouts,
    ended,
    dead_letters,
    answers,
    refusals,
    unanswered,
    cancels,
    keys,
    /// Asks that met a key that was still alive.
    existing,
    /// Times a run was chosen from a line of at least two.
    choices,
    /// Messages of queues that came to be rows, and how often they left a leader, the first time or not.
    messages,
    deliveries,
    redeliveries,
    messages_acked,
    nacks,
    messages_returned,
    messages_expired,
    messages_flushed,
    /// Adds that met a key that was still alive, or a line that was too long.
    keys_met,
    adds_refused,
    /// Times one who waited at a queue was given something.
    waits_served,
    /// Pages of lines that were read.
    line_pages,
    /// Queues whose counts were looked at when all was quiet.
    queues_counted,
}
