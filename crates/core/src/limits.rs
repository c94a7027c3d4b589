//! Every maximum that a user can run into, in one place.

use std::time::Duration;

pub const NAME_BYTES_MAX: usize = 128;
/// The name of a queue: some users put whole keys into it.
pub const QUEUE_NAME_BYTES_MAX: usize = 512;
/// The body of a message.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Bodies on one page of messages: the message that reaches this limit is the last on its page. A thousand of the
/// largest would be a gibibyte.
pub const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Queues of one shard: each is in memory while its shard is led.
pub const QUEUES_PER_SHARD_MAX: usize = 65_536;
/// Messages that one take returns.
pub const TAKE_MAX: u32 = 1000;
/// Bodies that one take or one peek returns: the message that reaches this limit is the last, and the rest stays
/// queued. The answer may have to travel to another node.
pub const TAKE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long a queue may hold a new message.
pub const QUEUE_HOLD_MIN: Duration = Duration::from_millis(100);
pub const QUEUE_HOLD_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long a message lives at least in a dead-letter queue.
pub const DEAD_LETTER_TTL: Duration = Duration::from_secs(30 * 24 * 3600);
/// Messages of a shard that are on their way to dead-letter queues. Further ones stay in their queues for the time being.
pub const DEAD_MESSAGES_MAX: usize = 1000;
/// The description of a job or a calendar.
pub const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
/// Parameters of a job or a run, as JSON text.
pub const PARAMS_BYTES_MAX: usize = 256 * 1024;
/// The output of a run; more is cut with a mark.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// A line of the log; a longer one is cut with a mark.
pub const LINE_BYTES_MAX: usize = 16 * 1024;
/// An error or a reason stored with a run; more is cut with a mark.
pub const ERROR_BYTES_MAX: usize = 4 * 1024;
/// The error of an earlier attempt: a hundred of them must not make the run large.
pub const EARLIER_ERROR_BYTES_MAX: usize = 512;
/// The output of a run in a listing, and of a waiting run in memory: a page of a thousand must not reach a gigabyte.
/// Reading a single run gives all of its output.
pub const LISTED_OUTPUT_BYTES_MAX: usize = 4 * 1024;
/// A unique or idempotency key.
pub const KEY_BYTES_MAX: usize = 256;
/// A key as a store keeps it, with the prefix that separates it from other kinds of keys.
pub const UNIQUE_BYTES_MAX: usize = 1024;
/// A command line or a shell text: what Linux takes as one argument, with its NUL terminator.
pub const COMMAND_BYTES_MAX: usize = 128 * 1024 - 1;
pub const COMMAND_WORDS_MAX: usize = 1024;
pub const ENV_ENTRIES_MAX: usize = 256;
pub const SCHEDULES_MAX: usize = 16;
/// Limits of one job.
pub const LIMITS_MAX: usize = 8;
/// Starts of runs, or deliveries of messages, a second that a rate may allow, and the largest burst.
pub const RATE_MAX: u32 = 1_000_000;
pub const ATTEMPTS_MAX: u32 = 100;
/// A run whose worker was lost this often without a new checkpoint in between is assumed to kill its workers.
pub const LOSSES_MAX: u32 = 3;
/// A run that was moved this often without a new checkpoint in between makes no progress.
pub const MOVES_MAX: u32 = 100;
/// The time between the request to stop and the kill, if the job does not set it, and its maximum.
pub const GRACE: Duration = Duration::from_secs(10);
pub const GRACE_MAX: Duration = Duration::from_secs(600);
pub const OVERLAP_GRACE_MAX: Duration = Duration::from_secs(3600);
/// The message of a progress report.
pub const PROGRESS_MESSAGE_BYTES_MAX: usize = 256;
/// A checkpoint, as JSON: it is part of the run's row, which is written with every change of the run.
pub const CHECKPOINT_BYTES_MAX: usize = 64 * 1024;
pub const PRIORITY_MAX: u8 = 9;
/// Missed due times that `misfire: all` makes up for; the rest is one range record.
pub const MISFIRE_CATCH_UP_MAX: usize = 100;
/// Runs of one job that wait under `overlap: queue`; a further one is skipped with a reason.
pub const HELD_PER_JOB_MAX: usize = 1000;
/// Runs that a node keeps in memory: ready, running, held or in backoff. Beyond it submits are refused.
pub const LIVE_RUNS_MAX: usize = 1_000_000;
/// How long a key given with a submit is kept, unless the submit sets it.
pub const KEY_KEPT: Duration = Duration::from_secs(24 * 3600);
/// The longest timeout, delay and interval of a job.
pub const DURATION_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// Parts of one split run: each is a child run and has a row among the steps, like an item of a `map`.
pub const CHILDREN_MAX: u32 = MAP_ITEMS_MAX;
/// Workers of one broadcast: each of its parts waits in a queue of its own, and the node looks through all of them.
pub const BROADCAST_MAX: u32 = 1_000;
/// The task of a split run without a job, as JSON: every child run carries a copy of it.
pub const SPLIT_TASK_BYTES_MAX: usize = 32 * 1024;
/// Steps of a workflow, those of its sub-workflows included.
pub const WORKFLOW_STEPS_MAX: usize = 5000;
/// Edges of a workflow, those of its sub-workflows included: one for each step that a step needs.
pub const WORKFLOW_EDGES_MAX: usize = 20_000;
/// The longest chain of steps in one workflow.
pub const WORKFLOW_DEPTH_MAX: usize = 1000;
/// Levels of workflows, the outermost included.
pub const WORKFLOW_NESTING_MAX: usize = 16;
/// Runs of jobs, each started by the one before: by its end, or by a step of it.
pub const CHAIN_MAX: u32 = 64;
/// Jobs that a check for cycles reads when a job is saved, because the caller waits. A longer cycle ends with
/// `chain_too_long` when it runs.
pub const CYCLE_JOBS_MAX: usize = 1_000;
/// Jobs that the end of one job starts.
pub const LINKS_MAX: usize = 100;
/// Jobs and steps that listen to one event.
pub const LISTENERS_MAX: usize = 1_000;
/// Jobs that the messages of one queue start.
pub const QUEUE_LISTENERS_MAX: usize = 16;
/// Events that one run takes with `batch`.
pub const BATCH_EVENTS_MAX: u32 = 1_000;
/// How long a run gathers events.
pub const GATHER_MAX: Duration = Duration::from_secs(24 * 3600);
/// An event with its key.
pub const EVENT_BYTES_MAX: usize = 256 * 1024;
/// An event, for all its listeners together: each gets a copy.
pub const EVENT_COPIES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Items of one `map`.
pub const MAP_ITEMS_MAX: u32 = 10_000;
/// Due times of one backfill: each is an item among its steps, like an item of a `map`.
pub const BACKFILL_MAX: usize = 10_000;
/// Child runs of one backfill that are active at once: a pause does not hold those that have started.
pub const BACKFILL_RUNNING_MAX: u32 = 1_000;
/// The output of a step, as expressions can use it.
pub const STEP_OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// The outputs of all steps of a workflow together, which are in memory while it runs.
pub const WORKFLOW_OUTPUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What the steps that one task names have together: it travels to the worker with the task.
pub const STEP_VALUES_BYTES_MAX: usize = 1024 * 1024;
/// Approvals that wait in one namespace, in the memory of a node. Each keeps its workflow there.
pub const APPROVALS_MAX: usize = 10_000;
/// Pauses, resumes, cancels and the retry by hand that are recorded with one run, the newest ones: they are in its row.
pub const BY_HAND_MAX: usize = 100;
/// The longest pause of a job and the longest hold that end by themselves: a longer one is more likely a mistake.
pub const PAUSE_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// Holds that may be in force at once: each start of a run looks at them.
pub const HOLDS_MAX: usize = 100;
/// Failed runs in a row after which a job can be paused.
pub const PAUSE_AFTER_MAX: u32 = 1_000;
/// Alerts of one job, and the channels that one alert names.
pub const ALERTS_MAX: usize = 10;
pub const ALERT_CHANNELS_MAX: usize = 10;
/// Failed runs that an alert counts.
pub const ALERT_FAILURES_MAX: u32 = 1_000;
/// The shortest span of an alert, and the shortest time between two notifications of an incident that goes on.
pub const ALERT_SPAN_MIN: Duration = Duration::from_secs(1);
pub const ALERT_REPEAT_MIN: Duration = Duration::from_secs(60);
/// Jobs of one namespace that are pings.
pub const PINGS_MAX: usize = 1_000;
/// Jobs that are read to count the pings of a namespace when one is added, because the caller waits. In a namespace with more
/// jobs, the pings among the first of them are counted, in the order of their names.
pub const PING_JOBS_MAX: usize = 20_000;
/// What a ping says, such as the last lines of a program: more is cut with a mark.
pub const PING_TEXT_BYTES_MAX: usize = 64 * 1024;
/// Open incidents of one namespace, in the memory of a node. Beyond it no incident opens.
pub const INCIDENTS_MAX: usize = 10_000;
/// Incidents of one shard that are over and still listed, and how long they are listed.
pub const INCIDENTS_ENDED_MAX: usize = 1_000;
pub const INCIDENTS_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Different errors of one incident that are notified.
pub const FINGERPRINTS_MAX: usize = 32;
/// How long a notification is tried again. After that it is given up.
pub const NOTIFY_FOR: Duration = Duration::from_secs(24 * 3600);
/// The weight of a share: how many turns a key may have while another one has a single turn.
pub const SHARE_WEIGHT_MAX: u32 = 1_000;
/// Locks that are held in one namespace, in the memory of a node.
pub const LOCKS_MAX: usize = 10_000;
/// Locks of one shard, over all namespaces: each is in memory while its shard is led.
pub const LOCKS_PER_SHARD_MAX: usize = 65_536;
/// Callers that wait for one lock, and for all locks of one shard.
pub const LOCK_WAITERS_MAX: usize = 1_000;
pub const LOCK_WAITERS_PER_SHARD_MAX: usize = 16_384;
/// How long a lock is held without a renewal.
pub const LOCK_TTL_MIN: Duration = Duration::from_millis(100);
pub const LOCK_TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long one request waits for a lock: proxies cut a connection that is silent for longer.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);
/// The owner of a lock.
pub const LOCK_OWNER_BYTES_MAX: usize = 256;
/// The comment of a decision on a step or a run.
pub const COMMENT_BYTES_MAX: usize = 1024;
/// Changes in one commit: enough to amortise an fsync, few enough not to delay the next answer.
pub const COMMIT_BATCH_MAX: usize = 4096;
/// Rows on one page of a listing.
pub const PAGE_MAX: usize = 1000;
/// One expression of a template or a condition, as text.
pub const EXPRESSION_BYTES_MAX: usize = 4 * 1024;
/// Expressions in one text, and texts with expressions in one JSON, because parsing them delays other requests.
pub const EXPRESSIONS_MAX: usize = 256;
/// How deep an expression may nest. Every operator in a row counts as a level, because it is one in the tree.
pub const EXPRESSION_DEPTH_MAX: usize = 64;
/// Evaluation steps of all expressions of one text together; copying a kilobyte counts as one.
pub const EXPRESSION_STEPS_MAX: u32 = 10_000;
/// The result of an expression or a whole template, and every intermediate value.
pub const EXPRESSION_RESULT_BYTES_MAX: usize = 1024 * 1024;
/// A URL, at every endpoint.
pub const URL_BYTES_MAX: usize = 8 * 1024;
/// Headers of a request, and bytes of one header's value.
pub const HTTP_HEADERS_MAX: usize = 64;
pub const HTTP_HEADER_BYTES_MAX: usize = 8 * 1024;
/// The body of a request.
pub const HTTP_BODY_BYTES_MAX: usize = 1024 * 1024;
/// How much of a response is read, enough for a condition; the rest is left unread.
pub const HTTP_RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// The default timeout of a request, because a request that hangs holds a slot.
pub const HTTP_TIMEOUT: Duration = Duration::from_secs(60);
/// The time between two polls of work that was accepted: at least, at most and by default.
pub const HTTP_POLL_MIN: Duration = Duration::from_millis(100);
pub const HTTP_POLL_MAX: Duration = Duration::from_secs(3600);
pub const HTTP_POLL: Duration = Duration::from_secs(5);
/// How long the answer to a poll may take. All polls of one origin share a connection, so a slow one delays the others.
pub const HTTP_POLL_TIMEOUT: Duration = Duration::from_secs(10);
/// The time between two polls of an executor over gRPC that tells nothing by itself, and after a failed poll.
pub const GRPC_POLL: Duration = Duration::from_secs(30);
pub const GRPC_POLL_AGAIN: Duration = Duration::from_secs(5);
/// Failed polls in a row that fail the attempt.
pub const HTTP_POLLS_FAILED_MAX: u32 = 5;
/// Ranges of status codes in one list.
pub const HTTP_STATUS_RANGES_MAX: usize = 32;
/// The name of a gRPC method, with its service and package.
pub const GRPC_METHOD_BYTES_MAX: usize = 512;
/// The message of a gRPC call, as JSON.
pub const GRPC_MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// The answer to a gRPC call. A part of a message cannot be read, so a longer answer fails the attempt.
pub const GRPC_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// The same answer as JSON, in which every field is written with its name and default value.
pub const GRPC_ANSWER_JSON_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The schema that a server tells by reflection: files of one service, and their bytes together.
pub const GRPC_SCHEMA_FILES_MAX: usize = 1000;
pub const GRPC_SCHEMA_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The part of a stored descriptor set that a task carries. Every revision of its job has a copy.
pub const GRPC_CARRIED_BYTES_MAX: usize = 256 * 1024;
/// A descriptor set that is stored.
pub const DESCRIPTOR_BYTES_MAX: usize = 1024 * 1024;
/// Slots of one worker.
pub const WORKER_SLOTS_MAX: u32 = 65_536;
/// Labels of one worker, and bytes of a label's name and of its value.
pub const LABELS_MAX: usize = 64;
pub const LABEL_BYTES_MAX: usize = 128;
/// Labels of one job, and bytes of a label's name and of its value.
pub const JOB_LABELS_MAX: usize = 32;
pub const JOB_LABEL_BYTES_MAX: usize = 256;
/// Parameters that a job names in `search`: each may add an index row for every run.
pub const SEARCH_PARAMS_MAX: usize = 10;
/// The text of a search.
pub const SEARCH_BYTES_MIN: usize = 2;
pub const SEARCH_BYTES_MAX: usize = 256;
/// The span of an answer with buckets, and how many buckets it may have.
pub const BUCKETS_SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
pub const BUCKETS_MAX: usize = 1000;
/// Functions that one worker may have.
pub const FUNCTIONS_MAX: usize = 1024;
/// Attempts that a worker may name in a heartbeat, including outcomes that wait for their acknowledgement.
pub const HOLDING_MAX: usize = 131_072;
/// How long runs without a job are kept, and the history of a deleted job.
pub const AD_HOC_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
