//! Every maximum that a user can run into, in one place, so that "too large" is a promise.

use std::time::Duration;

pub const NAME_BYTES_MAX: usize = 128;
/// The name of a queue: people have put whole keys into theirs.
pub const QUEUE_NAME_BYTES_MAX: usize = 512;
/// What a message carries.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Bodies on one page of messages, as a store gives it: the one that reaches it is the last on its page. A thousand of the
/// largest would weigh a gibibyte.
pub const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Queues of one shard: each is in memory while its shard is led.
pub const QUEUES_PER_SHARD_MAX: usize = 65_536;
/// Messages that one take may bring.
pub const TAKE_MAX: u32 = 1000;
/// Bodies that one take or one look at a line may bring: the one that reaches it is the last, and what is left stays in the
/// line. The answer may have to travel to another node.
pub const TAKE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What a job or a calendar says about itself to people.
pub const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
/// Parameters of a job or a run, as JSON text.
pub const PARAMS_BYTES_MAX: usize = 256 * 1024;
/// What a run may leave as its result; more is cut with a mark.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// A line of the log; the rest of a longer one is left out, and a mark says so.
pub const LINE_BYTES_MAX: usize = 16 * 1024;
/// An error or a reason kept with a run; more is cut with a mark.
pub const ERROR_BYTES_MAX: usize = 4 * 1024;
/// What is kept of the error of an attempt that was tried again; with a hundred attempts it must not outgrow the run.
pub const EARLIER_ERROR_BYTES_MAX: usize = 512;
/// Output of a run as a listing shows it, and as a run keeps it in memory until it is tried again: a page of them must
/// not weigh a gigabyte. The run by itself has it whole.
pub const LISTED_OUTPUT_BYTES_MAX: usize = 4 * 1024;
/// A key given for uniqueness or idempotency.
pub const KEY_BYTES_MAX: usize = 256;
/// A key as a store keeps it: with what sets it apart from the keys of others.
pub const UNIQUE_BYTES_MAX: usize = 1024;
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
/// Child runs of one run: a family is born in one commit, and its parent remembers every one of them.
pub const CHILDREN_MAX: u32 = 1000;
/// The task of a run without a job that is split, as JSON: every child run carries a copy of it.
pub const SPLIT_TASK_BYTES_MAX: usize = 32 * 1024;
/// Changes in one commit: enough to amortise an fsync, few enough not to delay the next answer.
pub const COMMIT_BATCH_MAX: usize = 4096;
/// Rows on one page of a listing.
pub const PAGE_MAX: usize = 1000;
/// One expression of a template, or a condition, as text: people read them.
pub const EXPRESSION_BYTES_MAX: usize = 4 * 1024;
/// Expressions in one text, and texts with expressions in one JSON: reading them takes the time of everyone who waits.
pub const EXPRESSIONS_MAX: usize = 256;
/// How deep an expression may nest. Every operator in a row is a level too, because it is one in the tree.
pub const EXPRESSION_DEPTH_MAX: usize = 64;
/// Steps that the expressions of one text may take together; a kilobyte that is copied counts as one.
pub const EXPRESSION_STEPS_MAX: u32 = 10_000;
/// What an expression or a whole template may give, on its way too.
pub const EXPRESSION_RESULT_BYTES_MAX: usize = 1024 * 1024;
/// A URL, as promised for every surface.
pub const URL_BYTES_MAX: usize = 8 * 1024;
/// Headers of a request, and bytes of one header's value.
pub const HTTP_HEADERS_MAX: usize = 64;
pub const HTTP_HEADER_BYTES_MAX: usize = 8 * 1024;
/// What a request sends.
pub const HTTP_BODY_BYTES_MAX: usize = 1024 * 1024;
/// What is read of a response: enough for what a condition looks at. The rest is left unread.
pub const HTTP_RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// How long a request may take, unless the task says otherwise: one that hangs holds a slot.
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(60);
/// Ranges of status codes that a task may expect.
pub const HTTP_STATUS_RANGES_MAX: usize = 32;
/// Slots of one worker.
pub const WORKER_SLOTS_MAX: u32 = 65_536;
/// Labels of one worker, and bytes of a label's name and of its value.
pub const LABELS_MAX: usize = 64;
pub const LABEL_BYTES_MAX: usize = 128;
/// Functions that one worker may have.
pub const FUNCTIONS_MAX: usize = 1024;
/// Attempts that a worker may name as its own, outcomes that wait for their acknowledgement included.
pub const HOLDING_MAX: usize = 131_072;
/// How long the runs without a job are kept, and the history of a deleted job.
pub const AD_HOC_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
