//! Runs, their output and their changes.

use punctual_core::limits::KEY_BYTES_MAX;
use punctual_core::run::Trigger;
use punctual_node::Topic;
use punctual_wire::rest::{
    ATTEMPT_KEY_HEADER, ActOnRuns, ActedOnRuns, Again, Approval, Cancel, Code, Comment, EVENT_STREAM, Event,
    Graph, Move, Progress, Run, RunPage, StepExpressions, Submit, TaskProgress, TaskProgressed, Why,
};
use punctual_wire::schema;
use punctual_wire::text::Instant;
use serde_json::{Value, json};

use super::{Operation, PLAIN, get, listing, post, search, several, starting, states};

pub(super) fn runs() -> Vec<Operation> {
    [many_runs(), one_run(), workflows(), progress()].into_iter().flatten().collect()
}

fn many_runs() -> Vec<Operation> {
    const RUNS: &str = "/api/v1/namespaces/{namespace}/runs";
    vec![
        listing(get(RUNS, "list_runs", "List runs, the newest first"))
            .query_of::<schema::Id>("after")
            .query("job", &json!({ "type": "array", "items": { "$ref": "#/components/schemas/Name" }, "maxItems": 50 }))
            .query("state", &states())
            .query("trigger", &several(&Trigger::ALL.map(Trigger::word), "One trigger or several, separated by commas."))
            .query("key", &json!({ "type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$" }))
            .query("search", &search())
            .query_of::<Instant>("since")
            .query_of::<Instant>("until")
            .query("attempts", &json!({ "type": "boolean" }))
            .query_of::<schema::Id>("parent")
            .query("children", &json!({ "type": "boolean", "description": "Also list the parts of split runs and the steps of workflows." }))
            .query("count", &json!({ "type": "boolean" }))
            .answers::<RunPage>(200, "A page")
            .refuses(&[Code::NoSuchJob, Code::NoSuchRun]),
        starting(post(RUNS, "submit_run", "Submit a run without a job")).takes::<Submit>(),
        post(
            "/api/v1/namespaces/{namespace}/runs/actions",
            "act_on_runs",
            "Cancel or retry many runs; each succeeds or fails on its own",
        )
        .takes::<ActOnRuns>()
        .answers::<ActedOnRuns>(200, "The result for each")
        .refuses(&[Code::NoSuchJob]),
    ]
}

fn one_run() -> Vec<Operation> {
    const RUN: &str = "/api/v1/namespaces/{namespace}/runs/{id}";
    vec![
        get(RUN, "show_run", "Show a run")
            .query("events", &json!({ "type": "boolean" }))
            .query(
                "children",
                &json!({ "type": "boolean", "description": "False leaves out the parts of a split run." }),
            )
            .answers::<Run>(200, "The run")
            .refuses(&[Code::NoSuchRun]),
        get(
            "/api/v1/namespaces/{namespace}/runs/{id}/why",
            "why_run",
            "Show why a run waits, was skipped or has not started",
        )
        .answers::<Why>(200, "The reason, as a code and in words")
        .refuses(&[Code::NoSuchRun]),
        post("/api/v1/namespaces/{namespace}/runs/{id}/cancel", "cancel_run", "Cancel a run")
            .may_take::<Cancel>()
            .answers::<Run>(200, "The run, cancelled or cancelling")
            .refuses(&[Code::NoSuchRun, Code::WrongState]),
        post(
            "/api/v1/namespaces/{namespace}/runs/{id}/move",
            "move_run",
            "Stop the attempt of a run, and continue the run on another worker",
        )
        .may_take::<Move>()
        .answers::<Run>(200, "The run, which moves when its attempt has ended")
        .refuses(&[Code::NoSuchRun, Code::WrongState]),
        starting(post(
            "/api/v1/namespaces/{namespace}/runs/{id}/retry",
            "retry_run",
            "Run a finished run again",
        ))
        .may_take::<Again>()
        .refuses(&[Code::NoSuchRun, Code::NoSuchJob, Code::NotAWorkflow, Code::WrongState]),
    ]
}

fn workflows() -> Vec<Operation> {
    vec![
        post(
            "/api/v1/namespaces/{namespace}/runs/{id}/pause",
            "pause_run",
            "Start no further step of a workflow",
        )
        .may_take::<Comment>()
        .answers::<Run>(200, "The run, paused")
        .refuses(&[Code::NoSuchRun, Code::NotAWorkflow, Code::WrongState]),
        post("/api/v1/namespaces/{namespace}/runs/{id}/resume", "resume_run", "Continue a paused workflow")
            .may_take::<Comment>()
            .answers::<Run>(200, "The run, which goes on")
            .refuses(&[Code::NoSuchRun, Code::NotAWorkflow, Code::WrongState]),
        paged_by_step(get(
            "/api/v1/namespaces/{namespace}/runs/{id}/graph",
            "show_run_graph",
            "Show the steps of a workflow and what became of each",
        ))
        .refuses(&[Code::NoSuchRun, Code::NotAWorkflow]),
        get(
            "/api/v1/namespaces/{namespace}/runs/{id}/steps/{step}/expressions",
            "list_step_expressions",
            "List the expressions of a step and what they gave",
        )
        .answers::<StepExpressions>(200, "The expressions")
        .refuses(&[Code::NoSuchRun, Code::NotAWorkflow, Code::NoSuchStep, Code::WrongState]),
        listing(get(
            "/api/v1/namespaces/{namespace}/approvals",
            "list_approvals",
            "List the steps that wait for an approval, those of the oldest runs first",
        ))
        .query("after", &json!({ "type": "string", "format": "place", "examples": ["4683711365120-2"] }))
        .answers_a_page_of::<Approval>(),
        decision(
            "/api/v1/namespaces/{namespace}/runs/{id}/steps/{step}/approve",
            "approve_step",
            "Approve a step that waits for it",
        ),
        decision(
            "/api/v1/namespaces/{namespace}/runs/{id}/steps/{step}/reject",
            "reject_step",
            "Reject a step that waits for an approval: it fails",
        ),
        decision(
            "/api/v1/namespaces/{namespace}/runs/{id}/steps/{step}/skip",
            "skip_step",
            "Skip a step that has not started, or waits",
        ),
        decision(
            "/api/v1/namespaces/{namespace}/runs/{id}/steps/{step}/cancel",
            "cancel_step",
            "Stop a step that has started: it fails",
        ),
    ]
}

fn progress() -> Vec<Operation> {
    vec![
        post(
            "/api/v1/namespaces/{namespace}/runs/{id}/progress",
            "report_progress",
            "Report the progress of an attempt, with its token or its key",
        )
        .header(ATTEMPT_KEY_HEADER, &attempt_key())
        .takes::<Progress>()
        .answers_nothing("The progress was recorded")
        .refuses(&[Code::NoSuchRun, Code::WrongState, Code::OutdatedToken]),
        post("/api/v1/task_progress", "report_task_progress", "Report progress by execution id")
            .header(ATTEMPT_KEY_HEADER, &attempt_key())
            .takes::<TaskProgress>()
            .answers::<TaskProgressed>(200, "The progress was recorded")
            .refuses(&[Code::NoSuchRun, Code::WrongState, Code::OutdatedToken]),
    ]
}

fn decision(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    post(path, id, summary).may_take::<Comment>().answers::<Run>(200, "The run of the workflow").refuses(&[
        Code::NoSuchRun,
        Code::NotAWorkflow,
        Code::NoSuchStep,
        Code::WrongState,
    ])
}

/// A graph in pages. `after` is the last step of the page before.
pub(super) fn paged_by_step(operation: Operation) -> Operation {
    listing(operation)
        .query("after", &json!({ "type": "string", "description": "The last step of the page before." }))
        .answers::<Graph>(200, "The graph")
}

fn attempt_key() -> Value {
    json!({ "type": "string", "description": "The key of the attempt; no other token is needed then." })
}

/// Routes that can stream events until a run has ended.
pub(super) fn live() -> Vec<Operation> {
    const LIVE: &str = "Server-sent events, and `end` as the last";
    let follow = json!({ "type": "boolean", "description": "Stream events until the run has ended." });
    let attempt = json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX });
    vec![
        get(
            "/api/v1/namespaces/{namespace}/runs/{id}/logs",
            "show_logs",
            "Show the output of a run's attempts",
        )
        .query("follow", &follow)
        .query("attempt", &attempt)
        .header(
            "Last-Event-ID",
            &json!({ "type": "string", "format": "place", "examples": ["4294967297-17"] }),
        )
        .answers_text(200, PLAIN, "The output, as it was printed, or as events")
        .answers_text(200, EVENT_STREAM, LIVE)
        .refuses(&[Code::NoSuchRun, Code::TooManyFollowers]),
        get("/api/v1/namespaces/{namespace}/runs/{id}/events", "show_events", "Show what happened to a run")
            .query("follow", &follow)
            .header_of::<schema::Id>("Last-Event-ID")
            .answers_a_page_of::<Event>()
            .answers_text(200, EVENT_STREAM, LIVE)
            .refuses(&[Code::NoSuchRun, Code::TooManyFollowers]),
        get("/api/v1/live", "follow_changes", "Stream the ids of everything that changes, for open pages")
            .query("namespace", &schema::dotted_namespace())
            .query(
                "topics",
                &several(&Topic::ALL.map(Topic::as_str), "One topic or several, separated by commas."),
            )
            .needed()
            .answers_text(200, EVENT_STREAM, "The event `hello`, then `change` at most four times a second")
            .refuses(&[Code::TooManyFollowers]),
    ]
}
