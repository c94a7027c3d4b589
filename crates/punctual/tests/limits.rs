//! The page of limits says what the code does.

use std::fmt::Display;

use punctual::alerts::settings::CHANNELS_MAX;
use punctual_core::schedule::calendar::ENTRIES_MAX;
use punctual_core::{limits, log, schedule, task};
use punctual_node::followers::FOLLOWERS_MAX;
use punctual_node::live::{IDS_MAX, LIVE_FOLLOWERS_MAX};
use punctual_server::{limits as http, resp};
use punctual_wire::{grpc, resp as frame, rest, tree};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/limits.md");

/// What is limited, to how much, and what happens beyond it.
fn rows() -> Vec<(&'static str, String, &'static str)> {
    let server = punctual_server::Settings::default();
    vec![
        ("body of a request", bytes(http::BODY_BYTES_MAX), "413 `body_too_large`"),
        ("path and query", bytes(http::ADDRESS_BYTES_MAX), "414 `address_too_long`"),
        ("headers, together", bytes(http::HEADERS_BYTES_MAX), "431 `headers_too_large`"),
        ("headers", count(http::HEADERS_MAX), "431 `headers_too_large`"),
        ("time for a head and its body", span(server.request_time), "closed, or 408 `too_slow`"),
        ("time for an answer to be taken", span(server.request_time), "closed"),
        ("requests on a connection", count(http::REQUESTS_MAX), "`Connection: close`"),
        ("connections", count(server.connections), "503 `too_many_connections`"),
        ("connections from one address", count(server.connections_per_address), "503 `too_many_connections`"),
        ("tokens", count(http::TOKENS_MAX), "409 `too_many_tokens`"),
        (
            "wrong tokens a minute from one address",
            count(http::FAILURES_MAX),
            "429 `too_many_failures`, for wrong ones only",
        ),
        ("levels of a JSON or YAML document", count(tree::DEPTH_MAX), "400 `malformed`"),
        ("file with jobs", bytes(tree::FILE_BYTES_MAX), "refused"),
        ("rows on a page, fires in a preview", count(limits::PAGE_MAX), "400 `bad_parameter`"),
        (
            "text of a search",
            format!("{} to {}", limits::SEARCH_BYTES_MIN, bytes(limits::SEARCH_BYTES_MAX)),
            "400 `bad_parameter`",
        ),
        ("buckets of an answer", count(limits::BUCKETS_MAX), "400 `bad_parameter`"),
        ("span of an answer with buckets", span(limits::BUCKETS_SPAN_MAX), "400 `bad_parameter`"),
        ("name, namespace", bytes(limits::NAME_BYTES_MAX), "refused"),
        ("description", bytes(limits::DESCRIPTION_BYTES_MAX), "422 `invalid`"),
        ("cron expression", bytes(schedule::EXPRESSION_MAX), "422 `invalid`"),
        ("name of a time zone", bytes(schedule::ZONE_MAX), "422 `invalid`"),
        ("duration, as text", bytes(schedule::DURATION_MAX), "422 `invalid`"),
        ("schedules of a job", count(limits::SCHEDULES_MAX), "422 `invalid`"),
        ("limits of a job", count(limits::LIMITS_MAX), "422 `invalid`"),
        ("starts a second that a rate allows, burst of a rate", count(limits::RATE_MAX), "422 `invalid`"),
        (
            "the key of a limit (`per`), as written and evaluated",
            bytes(limits::KEY_BYTES_MAX),
            "422 `invalid`",
        ),
        (
            "locks held in a namespace, in the shards of a node",
            count(limits::LOCKS_MAX),
            "429 `too_many_locks`",
        ),
        (
            "locks held in one shard, over all namespaces",
            count(limits::LOCKS_PER_SHARD_MAX),
            "429 `too_many_locks`",
        ),
        ("callers that wait for one lock", count(limits::LOCK_WAITERS_MAX), "429 `too_many_waiters`"),
        (
            "callers that wait for the locks of one shard",
            count(limits::LOCK_WAITERS_PER_SHARD_MAX),
            "429 `too_many_waiters`",
        ),
        (
            "`ttl` of a lock",
            format!("{} to {}", span(limits::LOCK_TTL_MIN), span(limits::LOCK_TTL_MAX)),
            "422 `invalid`",
        ),
        ("`wait` for a lock, in one request", span(limits::LOCK_WAIT_MAX), "422 `invalid`"),
        ("`owner` of a lock", bytes(limits::LOCK_OWNER_BYTES_MAX), "422 `invalid`"),
        ("parameters, as JSON", bytes(limits::PARAMS_BYTES_MAX), "422 `invalid`"),
        ("key", bytes(limits::KEY_BYTES_MAX), "422 `invalid`"),
        ("time a key is kept", span(limits::KEY_KEPT), "forgotten"),
        ("labels of a selector, of a worker", count(limits::LABELS_MAX), "422 `invalid`"),
        ("name of a label, value of a label", bytes(limits::LABEL_BYTES_MAX), "422 `invalid`"),
        ("labels of a job", count(limits::JOB_LABELS_MAX), "422 `invalid`"),
        ("name of a job's label, value of it", bytes(limits::JOB_LABEL_BYTES_MAX), "422 `invalid`"),
        ("parameters in `search` of a job", count(limits::SEARCH_PARAMS_MAX), "422 `invalid`"),
        ("words of a command", count(limits::COMMAND_WORDS_MAX), "422 `invalid`"),
        ("bytes of a command", count(limits::COMMAND_BYTES_MAX), "422 `invalid`"),
        ("environment variables of a task", count(limits::ENV_ENTRIES_MAX), "422 `invalid`"),
        ("URL of a request that a task sends", bytes(limits::URL_BYTES_MAX), "422 `invalid`"),
        ("headers of it", count(limits::HTTP_HEADERS_MAX), "422 `invalid`"),
        ("body of it", bytes(limits::HTTP_BODY_BYTES_MAX), "422 `invalid`"),
        ("redirects that it follows", count(task::HTTP_REDIRECTS_MAX), "422 `invalid`, or the attempt fails"),
        ("response that is read", bytes(limits::HTTP_RESPONSE_BYTES_MAX), "the rest is left unread"),
        ("time for it, if the task does not say", span(limits::HTTP_TIMEOUT), "the attempt fails"),
        ("method of a gRPC task", bytes(limits::GRPC_METHOD_BYTES_MAX), "422 `invalid`"),
        (
            "message of a gRPC task, as JSON",
            bytes(limits::GRPC_MESSAGE_BYTES_MAX),
            "422 `invalid`, or the attempt fails",
        ),
        ("answer to a gRPC task", bytes(limits::GRPC_ANSWER_BYTES_MAX), "the attempt fails"),
        ("the same answer as JSON", bytes(limits::GRPC_ANSWER_JSON_BYTES_MAX), "the attempt fails"),
        (
            "part of a descriptor set that a task needs",
            bytes(limits::GRPC_CARRIED_BYTES_MAX),
            "422 `invalid`",
        ),
        (
            "message on the `Watch` stream of an executor",
            bytes(limits::GRPC_ANSWER_BYTES_MAX),
            "the stream ends, which is a failed poll",
        ),
        ("descriptor set", bytes(limits::DESCRIPTOR_BYTES_MAX), "422 `invalid`"),
        (
            "files of a schema that reflection tells",
            count(limits::GRPC_SCHEMA_FILES_MAX),
            "the attempt fails",
        ),
        (
            "bytes of a schema that reflection tells",
            bytes(limits::GRPC_SCHEMA_BYTES_MAX),
            "the attempt fails",
        ),
        (
            "time between two polls of accepted work",
            format!("{}, at least {}", span(limits::HTTP_POLL_MAX), span(limits::HTTP_POLL_MIN)),
            "422 `invalid`",
        ),
        ("time in which an executor over gRPC tells nothing", span(limits::GRPC_POLL), "the worker asks it"),
        ("time for the answer to a poll", span(limits::HTTP_POLL_TIMEOUT), "the poll has failed"),
        (
            "failed polls in a row",
            count(limits::HTTP_POLLS_FAILED_MAX),
            "the attempt fails; the next one asks first",
        ),
        ("expression of a template, condition", bytes(limits::EXPRESSION_BYTES_MAX), "422 `invalid`"),
        ("expressions in a text", count(limits::EXPRESSIONS_MAX), "422 `invalid`"),
        ("levels of an expression", count(limits::EXPRESSION_DEPTH_MAX), "422 `invalid`"),
        ("steps of the expressions of a text", count(limits::EXPRESSION_STEPS_MAX), "the attempt fails"),
        ("result of a template", bytes(limits::EXPRESSION_RESULT_BYTES_MAX), "the attempt fails"),
        ("days and spans of a calendar", count(ENTRIES_MAX), "422 `invalid`"),
        ("dead letters decided about at once", count(rest::DECIDED_MAX), "422 `invalid`"),
        ("body of a request with messages", bytes(http::MESSAGES_BODY_BYTES_MAX), "413 `body_too_large`"),
        ("messages added or acted upon at once", count(rest::MESSAGES_MAX), "422 `invalid`"),
        ("messages taken at once", count(limits::TAKE_MAX), "422 `invalid`"),
        ("bodies in an answer with messages", bytes(http::TAKEN_BYTES_MAX), "the rest stays in the queue"),
        ("time that a take over REST waits", span(rest::TAKE_WAIT_MAX), "422 `invalid`"),
        ("messages deleted by one flush over REST", count(http::FLUSHED_MAX), "it says that there are more"),
        ("attempts of a run", count(limits::ATTEMPTS_MAX), "422 `invalid`"),
        (
            "attempts without a new checkpoint whose worker vanished",
            count(limits::LOSSES_MAX),
            "the run fails",
        ),
        (
            "moves of a run without a new checkpoint",
            count(limits::MOVES_MAX),
            "the run fails: `moved_too_often`",
        ),
        ("`grace` of a job", span(limits::GRACE_MAX), "422 `invalid`"),
        ("`overlap_grace` of a job", span(limits::OVERLAP_GRACE_MAX), "422 `invalid`"),
        ("message of a progress report", bytes(limits::PROGRESS_MESSAGE_BYTES_MAX), "422 `invalid`"),
        ("checkpoint, as JSON", bytes(limits::CHECKPOINT_BYTES_MAX), "422 `invalid`"),
        ("progress report over gRPC", bytes(http::BODY_BYTES_MAX), "`OUT_OF_RANGE`"),
        (
            "progress reports taken from their queue at once",
            count(http::PROGRESS_MESSAGES_AT_ONCE),
            "the next ones wait in the queue",
        ),
        (
            "time between two progress events of a follower",
            format!("at least {}", span(http::PROGRESS_EVENT_EVERY)),
            "the newest report is sent then",
        ),
        (
            "runs of a job that wait behind `overlap: queue`",
            count(limits::HELD_PER_JOB_MAX),
            "a recorded skip",
        ),
        (
            "missed fires made up for by `misfire: all`",
            count(limits::MISFIRE_CATCH_UP_MAX),
            "a recorded skip",
        ),
        (
            "due times of a backfill, those that are left out included",
            count(limits::BACKFILL_MAX),
            "422 `invalid`",
        ),
        (
            "active child runs of a backfill",
            count(limits::BACKFILL_RUNNING_MAX as usize),
            "the others start later",
        ),
        ("child runs of a split run, `route.shards`", count(limits::CHILDREN_MAX as usize), "422 `invalid`"),
        ("workers of a broadcast", count(limits::BROADCAST_MAX as usize), "a recorded skip"),
        ("steps of a workflow, with its sub-workflows", count(limits::WORKFLOW_STEPS_MAX), "refused"),
        ("entries in `needs` and `switch` of a workflow", count(limits::WORKFLOW_EDGES_MAX), "refused"),
        ("steps in a chain of a workflow", count(limits::WORKFLOW_DEPTH_MAX), "refused"),
        ("levels of workflows", count(limits::WORKFLOW_NESTING_MAX), "refused"),
        ("runs of jobs, each started by the one before", count(limits::CHAIN_MAX), "`chain_too_long`"),
        (
            "jobs that a check for cycles looks at",
            count(limits::CYCLE_JOBS_MAX),
            "a longer cycle ends with `chain_too_long`",
        ),
        ("jobs that the end of one job starts", count(limits::LINKS_MAX), "refused"),
        ("jobs and steps that listen to an event", count(limits::LISTENERS_MAX), "refused"),
        ("jobs that listen to a queue", count(limits::QUEUE_LISTENERS_MAX), "refused"),
        ("events that one run takes with `batch`", count(limits::BATCH_EVENTS_MAX), "422 `invalid`"),
        ("`debounce` and `batch.within`", span(limits::GATHER_MAX), "422 `invalid`"),
        ("event with its key", bytes(limits::EVENT_BYTES_MAX), "refused"),
        ("event, the copies of all its listeners together", bytes(limits::EVENT_COPIES_BYTES_MAX), "refused"),
        (
            "items of a `map`, and its `parallel`",
            count(limits::MAP_ITEMS_MAX as usize),
            "the step fails with `map_too_long`; a larger `parallel` is refused",
        ),
        (
            "output of a step, as expressions use it",
            bytes(limits::STEP_OUTPUT_BYTES_MAX),
            "a step that names it fails with `output_too_long`",
        ),
        (
            "outputs of all steps of a workflow together",
            bytes(limits::WORKFLOW_OUTPUT_BYTES_MAX),
            "as above, for later outputs",
        ),
        (
            "waiting approvals of a namespace, in the shards of a node",
            count(limits::APPROVALS_MAX),
            "the step fails with `too_many_approvals`",
        ),
        ("time until a pause of a job or a hold ends by itself", span(limits::PAUSE_MAX), "422 `invalid`"),
        ("holds in force", count(limits::HOLDS_MAX), "422 `invalid`"),
        ("`share.weight`", format!("1 to {}", count(limits::SHARE_WEIGHT_MAX)), "422 `invalid`"),
        ("`pause_after`", format!("1 to {}", count(limits::PAUSE_AFTER_MAX)), "422 `invalid`"),
        ("alerts of a job or of a step, channels of an alert", count(limits::ALERTS_MAX), "422 `invalid`"),
        (
            "`after` and `of` of an alert",
            format!("1 to {}", count(limits::ALERT_FAILURES_MAX)),
            "422 `invalid`",
        ),
        (
            "`by`, `in`, `within` and `repeat` of an alert, at least",
            format!("{}, `repeat` {}", span(limits::ALERT_SPAN_MIN), span(limits::ALERT_REPEAT_MIN)),
            "422 `invalid`",
        ),
        ("pings of a namespace, among its first 20,000 jobs", count(limits::PINGS_MAX), "422 `invalid`"),
        ("output of a ping", bytes(limits::PING_TEXT_BYTES_MAX), "the end is kept"),
        (
            "open incidents of a namespace, in the shards of a node",
            count(limits::INCIDENTS_MAX),
            "no further incident opens",
        ),
        (
            "incidents of a shard that are over",
            format!("{}, for {}", count(limits::INCIDENTS_ENDED_MAX), span(limits::INCIDENTS_KEPT)),
            "the oldest are removed",
        ),
        (
            "different errors of one incident",
            count(limits::FINGERPRINTS_MAX),
            "further ones are not notified",
        ),
        ("time until a silence of an incident ends", span(limits::PAUSE_MAX), "422 `invalid`"),
        ("channels in the settings of a node", count(CHANNELS_MAX), "refused at the start"),
        ("time for which a notification is tried", span(limits::NOTIFY_FOR), "given up"),
        (
            "comment of a decision on a step or a run, reason of a pause",
            bytes(limits::COMMENT_BYTES_MAX),
            "refused",
        ),
        (
            "pauses, resumes, cancels and the retry by hand, of one run",
            count(limits::BY_HAND_MAX),
            "the newest are kept",
        ),
        (
            "outputs that one task of a step names",
            bytes(limits::STEP_VALUES_BYTES_MAX),
            "the step fails with `output_too_long`",
        ),
        (
            "task of a run without a job that is split, or of its step with `map`",
            bytes(limits::SPLIT_TASK_BYTES_MAX),
            "422 `invalid`",
        ),
        ("live runs in the memory of a node", count(limits::LIVE_RUNS_MAX), "429 `too_many_runs`"),
        ("followers of live logs and events", count(FOLLOWERS_MAX), "429 `too_many_followers`"),
        ("pages that follow changes, a node", count(LIVE_FOLLOWERS_MAX), "429 `too_many_followers`"),
        ("ids of a kind in one message to a page", count(IDS_MAX), "`more: true`"),
        (
            "runs in one request to cancel or retry",
            count(rest::DECIDED_MAX),
            "422 `invalid`, or `more: true`",
        ),
        ("result of a run", bytes(limits::OUTPUT_BYTES_MAX), "cut with a mark"),
        ("result of a run in a listing", bytes(limits::LISTED_OUTPUT_BYTES_MAX), "cut with a mark"),
        ("error of a run", bytes(limits::ERROR_BYTES_MAX), "cut with a mark"),
        ("line of the output", bytes(limits::LINE_BYTES_MAX), "cut with a mark"),
        ("output of a run, all attempts together", bytes(log::RUN_BYTES_MAX), "cut with a mark"),
        ("requests at once on an HTTP/2 connection", count(http::STREAMS_MAX), "the client waits"),
        ("headers over HTTP/2, together", bytes(http::HEADERS_BYTES_H2_MAX), "431"),
        ("slots of a worker", count(limits::WORKER_SLOTS_MAX), "its stream is ended"),
        ("functions of a worker", count(limits::FUNCTIONS_MAX), "its stream is ended"),
        ("labels of a worker", count(limits::LABELS_MAX), "its stream is ended"),
        ("name or value of a label", bytes(limits::LABEL_BYTES_MAX), "its stream is ended"),
        ("message of a worker", bytes(grpc::MESSAGE_BYTES_MAX), "its stream is ended"),
        ("output of a worker that is not acknowledged", bytes(grpc::LOG_WINDOW_BYTES), "the program waits"),
        (
            "body of a message, word of a request over RESP",
            bytes(frame::BULK_BYTES_MAX),
            "`-ERR`, passed over",
        ),
        ("request over RESP, all of it", bytes(frame::REQUEST_BYTES_MAX), "`-ERR`, passed over"),
        ("words of a request over RESP", count(frame::ITEMS_MAX), "`-ERR`, closed"),
        ("request typed as a line over RESP", bytes(frame::INLINE_BYTES_MAX), "`-ERR`, closed"),
        ("words of a request before AUTH", count(frame::STRANGER_ITEMS_MAX), "`-ERR`, closed"),
        ("word of a request before AUTH", bytes(frame::STRANGER_BULK_BYTES_MAX), "`-ERR`, closed"),
        ("answer over RESP", bytes(resp::OUTPUT_BYTES_MAX), "closed; GETJOB brings fewer jobs instead"),
        ("connections over RESP", count(resp::Settings::default().connections), "`-ERR`, closed"),
        ("name of a queue", bytes(limits::QUEUE_NAME_BYTES_MAX), "refused"),
        ("queues of a shard", count(limits::QUEUES_PER_SHARD_MAX), "`-OOM`"),
        (
            "`hold` of a queue",
            format!("{} to {}", span(limits::QUEUE_HOLD_MIN), span(limits::QUEUE_HOLD_MAX)),
            "422 `invalid`",
        ),
        ("deliveries a second by `rate` of a queue", count(limits::RATE_MAX), "422 `invalid`"),
        (
            "messages of a shard on their way to dead-letter queues",
            count(limits::DEAD_MESSAGES_MAX),
            "others stay in their queues for the time being",
        ),
        ("queues that a GETJOB names", count(resp::QUEUES_MAX), "`-ERR`"),
        ("queues that a take names beside its own", count(rest::ALSO_MAX), "422 `invalid`"),
        ("jobs that a WAITJOB names", count(resp::WAITED_MAX), "`-ERR`"),
        ("commands between MULTI and EXEC", count(resp::TRANSACTION_MAX), "`-ERR`, then `-EXECABORT`"),
        (
            "commands between MULTI and EXEC, together",
            bytes(resp::TRANSACTION_BYTES_MAX),
            "`-ERR`, then `-EXECABORT`",
        ),
        ("scans under way", count(resp::SCANS_MAX), "the oldest begins again"),
        (
            "bodies that one take of a queue brings",
            bytes(limits::TAKE_BYTES_MAX),
            "the rest stays in the queue",
        ),
        ("consumers of one node that wait at another", count(grpc::peer::WAITS_MAX), "they ask again"),
    ]
}

fn bytes(count: impl TryInto<u64>) -> String {
    match count.try_into().unwrap_or(0) {
        count if count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        count if count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        count => format!("{count} bytes"),
    }
}

fn count(count: impl Display) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits are ASCII"))
        .collect();
    groups.join(",")
}

fn span(span: std::time::Duration) -> String {
    schedule::format_duration(span)
}

/// `UPDATE_DOCS=1` writes the table anew.
#[test]
fn the_page_of_limits_says_what_the_code_does() {
    let text = std::fs::read_to_string(PAGE).unwrap();
    let (before, _) = text.split_once("| what |").expect("the page has a table");
    let mut expected = format!("{before}| what | at most | beyond it |\n|---|---|---|\n");
    for (what, most, beyond) in rows() {
        expected += &format!("| {what} | {most} | {beyond} |\n");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, &expected).unwrap();
    }
    assert_eq!(std::fs::read_to_string(PAGE).unwrap(), expected, "UPDATE_DOCS=1 writes it anew");
}
