//! A description of every row of the route table.
//!
//! To add a route: a row in `routes`, an entry here. Path parameters are described by their names; problems
//! that any request, any body or any change can get are added automatically.

mod locks;
mod alerts;
mod pings;
mod queues;
mod runs;

use axum::http::Method;
use punctual_core::limits::{JOB_LABELS_MAX, KEY_BYTES_MAX, PAGE_MAX, SEARCH_BYTES_MAX, SEARCH_BYTES_MIN};
use punctual_core::run::Status;
use punctual_core::schedule::{EXPRESSION_MAX, ZONE_MAX};
use punctual_wire::rest::{
    AddToken, Again, Backfill, BackfillJob, Calendar, Checked, Code, Day, DeadLetter, Decide, Decisions,
    Descriptor, Diff, Explained, Fire, Fires, Hold, Job, JobStatistics, LogRecord, MADE_HEADER,
    NamespaceCounts, NewToken, Node, Overview, PauseJob, PutDescriptor, PutHold, Revision, RevisionFile, Run,
    SendEvent, SentEvent, Skip, Start, Token, Whoami, Why, Worker,
};
use punctual_wire::schema;
use punctual_wire::text::{Instant, Span};
use serde_json::{Value, json};

use super::operation::{Operation, operation};
use crate::rest::cron;
use crate::rest::job_list::LAST_MAX;

const PLAIN: &str = "text/plain; charset=utf-8";
const ETAG: (&str, &str) = ("ETag", "The revision, for `If-Match`");

pub(super) fn operations() -> Vec<Operation> {
    let about_jobs = [
        jobs(),
        actions_on_jobs(),
        revisions(),
        holds(),
        calendars(),
        descriptors(),
        runs::runs(),
        runs::live(),
        dead_letters(),
    ];
    let of_queues = [queues::queues(), queues::messages(), locks::locks(), alerts::alerts(), pings::pings()];
    let others = of_queues.into_iter().chain([the_rest(), workers(), console()]);
    about_jobs.into_iter().chain(others).flatten().collect()
}

fn jobs() -> Vec<Operation> {
    const JOBS: &str = "/api/v1/namespaces/{namespace}/jobs";
    const JOB: &str = "/api/v1/namespaces/{namespace}/jobs/{name}";
    vec![
        listing(get(JOBS, "list_jobs", "List the jobs of a namespace, by name"))
            .query_of::<schema::Name>("after")
            .query("search", &search())
            .query("label", &json!({ "type": "array", "items": { "type": "string", "pattern": "^[^=]+=", "maxLength": 64 }, "maxItems": JOB_LABELS_MAX }))
            .query("state", &json!({ "type": "string", "enum": ["active", "paused", "finished"] }))
            .query("last", &number(1, LAST_MAX))
            .answers_a_page_of::<Job>(),
        expecting(put(JOB, "put_job", "Create a job, or edit it: every edit is a revision"))
            .takes_a_job()
            .answers::<Job>(201, "The job was created")
            .with(&[ETAG, (MADE_HEADER, "`created`")])
            .answers::<Job>(200, "The job was edited, or was the same already")
            .with(&[ETAG, (MADE_HEADER, "`changed` or `unchanged`")])
            .refuses(&[Code::NoSuchJob, Code::JobExists, Code::WrongRevision]),
        get(JOB, "show_job", "Show a job")
            .answers::<Job>(200, "The job")
            .with(&[ETAG])
            .refuses(&[Code::NoSuchJob]),
        operation(Method::PATCH, JOB, "patch_job", "Change parts of a job")
            .header("If-Match", &tag())
            .takes_a_patch()
            .answers::<Job>(200, "The job was edited, or was the same already")
            .with(&[ETAG, (MADE_HEADER, "`changed` or `unchanged`")])
            .refuses(&[Code::NoSuchJob, Code::WrongRevision]),
        post(
            "/api/v1/namespaces/{namespace}/jobs/validate",
            "validate_job",
            "Check a job without saving it, and show its next due times",
        )
        .query("graph", &json!({ "type": "boolean", "description": "Also return the graph of a workflow." }))
        .takes_a_job()
        .answers::<Checked>(200, "The job as a put would save it, with warnings"),
        expecting(delete(JOB, "delete_job", "Delete a job; its history is kept"))
            .answers_nothing("Deleted")
            .refuses(&[Code::NoSuchJob, Code::JobExists, Code::WrongRevision]),
    ]
}

/// What can be done with a job that exists.
fn actions_on_jobs() -> Vec<Operation> {
    vec![
        starting(post("/api/v1/namespaces/{namespace}/jobs/{name}/run", "run_job", "Start a job by hand"))
            .may_take::<Start>()
            .refuses(&[Code::NoSuchJob]),
        post(
            "/api/v1/namespaces/{namespace}/jobs/{name}/backfill",
            "backfill_job",
            "Make up for the due times of a job in a span of time",
        )
        .takes::<BackfillJob>()
        .answers::<Backfill>(201, "The backfill has begun")
        .answers::<Backfill>(200, "Nothing was left to do, or `dry_run` was given")
        .refuses(&[Code::NoSuchJob, Code::TooManyRuns]),
        post(
            "/api/v1/namespaces/{namespace}/events/{name}",
            "send_event",
            "Send an event: it starts the jobs that listen to its name",
        )
        .header("Idempotency-Key", &key())
        .may_take::<SendEvent>()
        .answers::<SentEvent>(202, "The event is stored"),
        post(
            "/api/v1/namespaces/{namespace}/jobs/{name}/pause",
            "pause_job",
            "Pause a job: it does not fire until it is resumed",
        )
        .may_take::<PauseJob>()
        .answers::<Job>(200, "The job, paused")
        .with(&[ETAG])
        .refuses(&[Code::NoSuchJob]),
        post("/api/v1/namespaces/{namespace}/jobs/{name}/resume", "resume_job", "Resume a paused job")
            .answers::<Job>(200, "The job, active")
            .with(&[ETAG])
            .refuses(&[Code::NoSuchJob]),
        get("/api/v1/namespaces/{namespace}/jobs/{name}/next", "next_fires", "Show when a job is due next")
            .query("count", &number(1, PAGE_MAX))
            .query_of::<Instant>("from")
            .answers_a_page_of::<Fire>()
            .refuses(&[Code::NoSuchJob]),
        runs::paged_by_step(get(
            "/api/v1/namespaces/{namespace}/jobs/{name}/graph",
            "show_job_graph",
            "Show the steps of a workflow and which of them need which",
        ))
        .refuses(&[Code::NoSuchJob, Code::NotAWorkflow]),
        get("/api/v1/namespaces/{namespace}/jobs/{name}/why", "why_job", "Show why a job does not run now")
            .answers::<Why>(200, "The reason, as a code and in words")
            .refuses(&[Code::NoSuchJob]),
    ]
}

fn revisions() -> Vec<Operation> {
    const REVISIONS: &str = "/api/v1/namespaces/{namespace}/jobs/{name}/revisions";
    const REVISION: &str = "/api/v1/namespaces/{namespace}/jobs/{name}/revisions/{revision}";
    vec![
        listing(get(REVISIONS, "list_revisions", "List the edits of a job, the newest first"))
            .query("after", &number(0, u32::MAX as usize))
            .answers_a_page_of::<Revision>()
            .refuses(&[Code::NoSuchJob]),
        get(REVISION, "show_revision", "Show the job file of a revision; a put of it restores the revision")
            .answers::<RevisionFile>(200, "The job file of that revision")
            .refuses(&[Code::NoSuchJob, Code::NoSuchRevision]),
        get(
            "/api/v1/namespaces/{namespace}/jobs/{name}/revisions/{revision}/diff",
            "diff_revision",
            "Show what an edit changed, since the revision before or since `from`",
        )
        .query("from", &number(1, u32::MAX as usize))
        .answers::<Diff>(200, "What differs, part by part")
        .refuses(&[Code::NoSuchJob, Code::NoSuchRevision]),
        listing(get(
            "/api/v1/namespaces/{namespace}/jobs/{name}/log",
            "show_job_log",
            "List the runs of a job with their output, the newest first",
        ))
        .query_of::<schema::Id>("after")
        .query("state", &states())
        .query_of::<Instant>("since")
        .query_of::<Instant>("until")
        .answers_a_page_of::<LogRecord>()
        .refuses(&[Code::NoSuchJob]),
        listing(get(
            "/api/v1/namespaces/{namespace}/jobs/{name}/skips",
            "list_skips",
            "List the due times of a job that were passed over, as ranges with the reason, the newest first; also of a \
             deleted job",
        ))
        .query("after", &json!({ "type": "string", "pattern": "^[1-9][0-9]{0,17}-[1-9][0-9]{0,8}-[0-9]{1,13}$" }))
        .answers_a_page_of::<Skip>()
        .refuses(&[Code::NoSuchJob]),
        get(
            "/api/v1/namespaces/{namespace}/jobs/{name}/stats",
            "show_job_stats",
            "Count the runs of a job that ended, by bucket, with percentiles of their times; also of a deleted job",
        )
        .query_of::<Instant>("since")
        .query_of::<Instant>("until")
        .query_of::<Span>("bucket")
        .answers::<JobStatistics>(200, "The counts of each bucket, and of all together")
        .refuses(&[Code::NoSuchJob]),
    ]
}

fn holds() -> Vec<Operation> {
    const OF_NAMESPACE: &str = "/api/v1/namespaces/{namespace}/hold";
    const OF_ALL: &str = "/api/v1/hold";
    const HELD: &str = "The hold; every shard has it";
    const RELEASED: &str = "Released";
    vec![
        get(OF_NAMESPACE, "list_holds", "List the holds that cover a namespace, the widest first")
            .answers_a_page_of::<Hold>(),
        put(OF_NAMESPACE, "put_hold", "Put a namespace on hold: nothing in it starts until it is released")
            .takes::<PutHold>()
            .answers::<Hold>(200, HELD)
            .refuses(&[Code::NoSuchHold]),
        delete(OF_NAMESPACE, "release_hold", "Release a namespace")
            .answers_nothing(RELEASED)
            .refuses(&[Code::NoSuchHold]),
        get(OF_ALL, "list_all_holds", "List all holds, the widest first").answers_a_page_of::<Hold>(),
        put(OF_ALL, "put_hold_on_all", "Put everything on hold: nothing starts until it is released")
            .takes::<PutHold>()
            .answers::<Hold>(200, HELD)
            .refuses(&[Code::NoSuchHold]),
        delete(OF_ALL, "release_hold_on_all", "Release everything")
            .answers_nothing(RELEASED)
            .refuses(&[Code::NoSuchHold]),
    ]
}

fn calendars() -> Vec<Operation> {
    const CALENDARS: &str = "/api/v1/namespaces/{namespace}/calendars";
    const CALENDAR: &str = "/api/v1/namespaces/{namespace}/calendars/{name}";
    const VERSION: (&str, &str) = ("ETag", "The version, for `If-Match`");
    const REFUSED: [Code; 2] = [Code::NoSuchCalendar, Code::WrongVersion];
    vec![
        listing(get(CALENDARS, "list_calendars", "List the calendars of a namespace, by name"))
            .query_of::<schema::Name>("after")
            .answers_a_page_of::<Calendar>(),
        expecting(put(CALENDAR, "put_calendar", "Create a calendar, or edit it: jobs that name it follow"))
            .takes_a_calendar()
            .answers::<Calendar>(201, "The calendar was created")
            .with(&[VERSION, (MADE_HEADER, "`created`")])
            .answers::<Calendar>(200, "The calendar was edited, or was the same already")
            .with(&[VERSION, (MADE_HEADER, "`changed` or `unchanged`")])
            .refuses(&REFUSED)
            .refuses(&[Code::CalendarExists]),
        get(CALENDAR, "show_calendar", "Show a calendar")
            .answers::<Calendar>(200, "The calendar")
            .with(&[VERSION])
            .refuses(&[Code::NoSuchCalendar]),
        expecting(delete(CALENDAR, "delete_calendar", "Delete a calendar that no job names"))
            .answers_nothing("Deleted")
            .refuses(&REFUSED)
            .refuses(&[Code::CalendarExists, Code::CalendarInUse]),
        get(
            "/api/v1/namespaces/{namespace}/calendars/{name}/days",
            "show_days",
            "Show which days the calendar includes, and why; by default the coming month",
        )
        .query("from", &schema::date())
        .query("to", &schema::date())
        .answers_a_page_of::<Day>()
        .refuses(&[Code::NoSuchCalendar]),
    ]
}

fn descriptors() -> Vec<Operation> {
    const DESCRIPTORS: &str = "/api/v1/namespaces/{namespace}/descriptors";
    const DESCRIPTOR: &str = "/api/v1/namespaces/{namespace}/descriptors/{name}";
    const VERSION: (&str, &str) = ("ETag", "The version, for `If-Match`");
    const REFUSED: [Code; 3] = [Code::NoSuchDescriptor, Code::DescriptorExists, Code::WrongVersion];
    vec![
        listing(get(DESCRIPTORS, "list_descriptors", "List the descriptor sets of a namespace, by name"))
            .query_of::<schema::Name>("after")
            .answers_a_page_of::<Descriptor>(),
        expecting(put(DESCRIPTOR, "put_descriptor", "Store the schema of gRPC services, or replace it"))
            .takes::<PutDescriptor>()
            .answers::<Descriptor>(201, "It was created")
            .with(&[VERSION, (MADE_HEADER, "`created`")])
            .answers::<Descriptor>(200, "It was replaced, or was the same already")
            .with(&[VERSION, (MADE_HEADER, "`changed` or `unchanged`")])
            .refuses(&REFUSED),
        get(DESCRIPTOR, "show_descriptor", "Show a descriptor set with its services")
            .answers::<Descriptor>(200, "The descriptor set")
            .with(&[VERSION])
            .refuses(&[Code::NoSuchDescriptor]),
        expecting(delete(
            DESCRIPTOR,
            "delete_descriptor",
            "Delete a descriptor set; jobs keep what they carry",
        ))
        .answers_nothing("Deleted")
        .refuses(&REFUSED),
    ]
}

fn dead_letters() -> Vec<Operation> {
    const LETTERS: &str = "/api/v1/namespaces/{namespace}/dead-letters";
    vec![
        listing(get(LETTERS, "list_dead_letters", "List the runs that used up their attempts"))
            .query_of::<schema::Id>("after")
            .query_of::<schema::Name>("job")
            .query_of::<Instant>("since")
            .answers_a_page_of::<DeadLetter>(),
        post(
            LETTERS,
            "decide_dead_letters",
            "Replay or discard many dead letters; each succeeds or fails on its own",
        )
        .header("Idempotency-Key", &key())
        .takes::<Decide>()
        .answers::<Decisions>(200, "The result for each"),
        get("/api/v1/namespaces/{namespace}/dead-letters/{id}", "show_dead_letter", "Show a dead letter")
            .answers::<DeadLetter>(200, "The dead letter")
            .refuses(&[Code::NoSuchDeadLetter]),
        starting(post(
            "/api/v1/namespaces/{namespace}/dead-letters/{id}/replay",
            "replay_dead_letter",
            "Run a dead letter again",
        ))
        .may_take::<Again>()
        .refuses(&[Code::NoSuchRun, Code::NoSuchJob, Code::NotADeadLetter, Code::WrongState]),
        post(
            "/api/v1/namespaces/{namespace}/dead-letters/{id}/discard",
            "discard_dead_letter",
            "Discard a dead letter; its run stays in the history",
        )
        .answers_nothing("The dead letter was discarded")
        .refuses(&[Code::NoSuchRun, Code::NotADeadLetter]),
    ]
}

fn workers() -> Vec<Operation> {
    let told = |operation: Operation| {
        operation.answers_nothing("The worker was told").refuses(&[Code::NoSuchWorker])
    };
    vec![
        get("/api/v1/workers", "list_workers", "List the workers").answers_a_page_of::<Worker>(),
        told(post("/api/v1/workers/{worker}/drain", "drain_worker", "Tell a worker to take no more runs")),
        told(post("/api/v1/workers/{worker}/resume", "resume_worker", "Tell a worker to take runs again")),
    ]
}

fn the_rest() -> Vec<Operation> {
    vec![
        get("/api/v1/whoami", "whoami", "Show which token the caller has, and what it may do")
            .answers::<Whoami>(200, "The caller"),
        listing(get("/api/v1/namespaces", "list_namespaces", "List the namespaces that have jobs or queues"))
            .query_of::<schema::Namespace>("after")
            .answers_a_page_of::<NamespaceCounts>(),
        get("/api/v1/cron/explain", "explain_cron", "Explain a cron expression, with its next times")
            .query(
                "expression",
                &json!({ "type": "string", "format": "cron", "minLength": 1, "maxLength": EXPRESSION_MAX }),
            )
            .needed()
            .query(
                "timezone",
                &json!({ "type": "string", "format": "iana-time-zone", "maxLength": ZONE_MAX }),
            )
            .query_of::<schema::Weekdays>("weekdays")
            .query("count", &number(1, cron::COUNT_MAX))
            .query("lang", &json!({ "type": "string", "enum": ["en", "zh"] }))
            .query_of::<Instant>("from")
            .query("spread_key", &json!({ "type": "string" }))
            .answers::<Explained>(200, "A description, the next occurrences and the previous one"),
        get(
            "/api/v1/overview",
            "overview",
            "Show the state of the cluster, or of one namespace, at a glance",
        )
        .query("namespace", &schema::dotted_namespace())
        .answers::<Overview>(200, "The state"),
        get("/api/v1/fires", "list_fires", "Count past and coming fires by bucket")
            .query_of::<Instant>("from")
            .query_of::<Instant>("to")
            .query_of::<Span>("bucket")
            .query("namespace", &schema::dotted_namespace())
            .answers::<Fires>(200, "The buckets with fires"),
        get("/api/v1/nodes", "list_nodes", "List the nodes").answers_a_page_of::<Node>(),
        get(
            "/api/v1/export/history",
            "export_history",
            "Export jobs, runs, events and skips, for `punctual verify`",
        )
        .query_of::<Instant>("from")
        .query_of::<Instant>("to")
        .answers_text(200, "application/x-ndjson", "One JSON object a line, each with a `type`"),
        listing(get("/api/v1/tokens", "list_tokens", "List the tokens, by name, without their secrets"))
            .query_of::<schema::Name>("after")
            .answers_a_page_of::<Token>(),
        post("/api/v1/tokens", "add_token", "Make a token; this answer is the only one with its secret")
            .takes::<AddToken>()
            .answers::<NewToken>(201, "The token with its secret")
            .refuses(&[Code::TokenExists, Code::TooManyTokens]),
        delete(
            "/api/v1/tokens/{name}",
            "remove_token",
            "Remove a token: all nodes refuse it within five seconds",
        )
        .answers_nothing("Deleted")
        .refuses(&[Code::NoSuchToken]),
        get("/api/v1/openapi.json", "openapi", "This document").answers_json("The document"),
        get("/metrics", "metrics", "Metrics for Prometheus").answers_text(
            200,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "OpenMetrics text",
        ),
        get("/healthz", "healthz", "Whether the process works")
            .answers_text(200, PLAIN, "It works")
            .answers_text(503, PLAIN, "It failed: restart it"),
        get("/readyz", "readyz", "Whether the node takes requests")
            .answers_text(200, PLAIN, "Requests are taken")
            .answers_text(503, PLAIN, "Not ready: ask again"),
    ]
}

fn console() -> Vec<Operation> {
    const HTML: &str = "text/html; charset=utf-8";
    vec![
        get("/", "console", "The console, a page for browsers").answers_text(200, HTML, "The page"),
        get("/favicon.svg", "console_icon", "The icon of the console")
            .answers_text(200, "image/svg+xml", "The icon")
            .refuses(&[Code::NoSuchFile]),
        get("/assets/{file}", "console_file", "A script, style or picture of the console")
            .answers_text(200, "text/javascript; charset=utf-8", "The file")
            .answers_text(200, "text/css; charset=utf-8", "The file")
            .answers_text(200, "application/octet-stream", "The file")
            .refuses(&[Code::NoSuchFile]),
    ]
}

fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    operation(Method::GET, path, id, summary)
}

fn put(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    operation(Method::PUT, path, id, summary)
}

fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    operation(Method::POST, path, id, summary)
}

fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    operation(Method::DELETE, path, id, summary)
}

/// A paged listing; what `after` holds differs.
fn listing(operation: Operation) -> Operation {
    operation.query("limit", &number(1, PAGE_MAX))
}

/// An edit may say which revision it expects.
fn expecting(operation: Operation) -> Operation {
    operation.header("If-Match", &tag()).header("If-None-Match", &json!({ "type": "string", "const": "*" }))
}

/// A request that makes a run takes an idempotency key and answers with the run.
fn starting(operation: Operation) -> Operation {
    operation
        .header("Idempotency-Key", &key())
        .answers::<Run>(201, "The run that was made")
        .answers::<Run>(200, "The run that was made with this key before")
        .refuses(&[Code::KeyUsed, Code::TooManyRuns])
}

fn key() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX, "pattern": "^[!-~]([ -~]*[!-~])?$" })
}

/// A revision or a version in quotes.
fn tag() -> Value {
    json!({ "type": "string", "format": "revision", "examples": ["\"3\""] })
}

fn number(least: usize, most: usize) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

fn states() -> Value {
    let classic = ["PENDING", "RUNNING", "COMPLETED", "FAILED"];
    let words: Vec<&str> = Status::ALL.map(Status::as_str).into_iter().chain(classic).collect();
    several(
        &words,
        "One state or several, separated by commas. Each of the four in capitals stands for several states.",
    )
}

fn several(words: &[&str], description: &str) -> Value {
    let words = words.join("|");
    json!({ "type": "string", "pattern": format!("^({words})(,({words}))*$"), "description": description })
}

/// A text to look for.
fn search() -> Value {
    json!({ "type": "string", "minLength": SEARCH_BYTES_MIN, "maxLength": SEARCH_BYTES_MAX })
}
