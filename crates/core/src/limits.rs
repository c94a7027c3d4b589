//! Every maximum that a user can run into, in one place, so that "too large" is a promise.

use std::time::Duration;

pub const NAME_BYTES_MAX: usize = 128;
/// Parameters of a job or a run, as JSON text.
pub const PARAMS_BYTES_MAX: usize = 256 * 1024;
/// What a run may leave as its result; more is cut with a mark.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// An error or a reason kept with a run; more is cut with a mark.
pub const ERROR_BYTES_MAX: usize = 4 * 1024;
/// A key given for uniqueness or idempotency.
pub const KEY_BYTES_MAX: usize = 256;
/// A command line or a shell text: what Linux takes as one argument, with its ending NUL.
pub const COMMAND_BYTES_MAX: usize = 128 * 1024 - 1;
pub const COMMAND_WORDS_MAX: usize = 1024;
pub const ENV_ENTRIES_MAX: usize = 256;
pub const SCHEDULES_MAX: usize = 16;
pub const ATTEMPTS_MAX: u32 = 100;
/// A run whose worker vanished this often is taken to kill its workers.
pub const LOSSES_MAX: u32 = 3;
pub const PRIORITY_MAX: u8 = 9;
/// Missed fires that `misfire: all` makes up for; the rest is one range record.
pub const MISFIRE_CATCH_UP_MAX: usize = 100;
/// Runs of one job that wait behind `overlap: queue`; a further fire is skipped and says so.
pub const HELD_PER_JOB_MAX: usize = 1000;
/// Runs that a node keeps in memory: ready, running, held or backing off. Beyond it submits are refused.
pub const LIVE_RUNS_MAX: usize = 1_000_000;
/// How long a key given with a submit is remembered, unless the submit says otherwise.
pub const KEY_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Longest timeout, delay and interval a job may name.
pub const DURATION_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// Changes in one commit: enough to amortise an fsync, few enough not to delay the next answer.
pub const COMMIT_BATCH_MAX: usize = 4096;
/// Rows on one page of a listing.
pub const PAGE_MAX: usize = 1000;
