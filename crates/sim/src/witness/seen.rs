//! Counts the events of a simulation. A simulation without faults would prove nothing.

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
    /// Times the memory of a shard was discarded while its node was running.
    reloads,
    clock_steps,
    /// Times a leader from outside acquired a shard.
    stolen,
    pruned,
    /// Times a link to a worker was cut for a while.
    cuts,
    /// Times a worker connected to a node.
    links,
    /// Times a node was paused, and how often for longer than its lease while it led a shard.
    pauses,
    lapses,
    /// Times a shard moved from one node to another, and how often by a hand-over.
    takeovers,
    hand_overs,
    store_cuts,
    /// Times no node could reach the store for longer than a lease.
    outages,
    /// Ends of runs that statistics must have counted.
    counted_ends,
    /// Workflows that have ended, steps that were decided, steps that were reused, times a workflow was paused, and runs
    /// of steps.
    workflows,
    steps_decided,
    steps_reused,
    workflows_paused,
    step_runs,
    /// Steps that were split, and steps that a switch lists.
    steps_split,
    steps_switched,
    /// Holds that began in a shard, runs that waited under one, and records of due times that a hold keeps.
    holds,
    held_runs,
    kept_fires,
    /// Incidents that were opened, and notifications about them.
    incidents,
    notified,
    /// Requests between shards that were carried out.
    exchanges,
    /// Runs that steps, the ends of other jobs, and events have started.
    calls,
    followed,
    by_event,
    /// Steps that an event has woken, those among them that waited for a key, and runs with several events.
    steps_woken,
    woken_by_key,
    gathered,
    /// Runs that waited for a limit, and starts that a rate counted.
    limited,
    rated,
    /// Locks that owners got, those among them after a wait, and renewals.
    locks,
    lock_waits,
    locks_renewed,
    /// Messages that were handed to jobs, and those that were moved to a dead-letter queue.
    handed,
    moved,
    /// Recorded times that were compared with the arrival of their command or report.
    dated,
    /// Commands that were forwarded to another node.
    forwarded,
    /// Messages of workers that arrived before earlier ones, and messages that arrived again after a while.
    reordered,
    replayed,
    /// Times a worker died or was paused.
    worker_deaths,
    /// Attempts that a worker stopped because no node had heard from it for a lease.
    given_up,
    /// Attempts that started only when a new leader offered them again.
    offered_again,
    checkpoints,
    /// Attempts that ended because their run was moved or yielded, and times a node drained a worker.
    moves,
    drains,
    /// Fires that were checked for lateness.
    timely,
    commits,
    failed_commits,
    unknown_commits,
    /// Commits that took effect, or were fenced off, after their node had stopped waiting for them.
    late_commits,
    late_commits_fenced,
    pages,
    fetches,
    lost_messages,
    doubled_messages,
    job_rows,
    fires,
    misfires,
    /// Due times that have a run or a recorded skip.
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
    /// Commands whose key was already in use.
    existing,
    /// Times a run was chosen from at least two ready runs.
    choices,
    /// Messages that were written as rows, their first and repeated deliveries.
    messages,
    deliveries,
    redeliveries,
    messages_acked,
    nacks,
    messages_returned,
    messages_expired,
    messages_flushed,
    /// Adds whose key was already in use, and adds whose queue was too long.
    keys_met,
    adds_refused,
    /// Times a waiting consumer got a message.
    waits_served,
    /// Pages of queues that were read.
    queue_pages,
    /// Queues whose counts were checked while nothing was in flight.
    queues_counted,
}
