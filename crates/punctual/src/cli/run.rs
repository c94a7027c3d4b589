//! `punctual run`: runs.

mod approvals;
mod events;
mod report;
mod retry;
mod steps;
mod view;
mod wait;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use punctual_client::RunQuery;
use punctual_core::ids::RunId;
use punctual_core::name::Name;
use punctual_core::run::Status;
use punctual_wire::job_file::{Noop, Process, Retry, Route, Strategy, Task};
use punctual_wire::rest::{Cancel, Child, Move, Run, Submit};
use punctual_wire::text::Span;
use punctual_wire::{Text, yaml};
use serde::Serialize;

use super::failure::{Exit, Failure};
use super::job::StartArgs;
use super::logs::Logs;
use super::output::print;
use super::paging::{gather, say_if_more};
use super::time::{self, Since, duration};
use super::worker::label;
use super::{Format, Session, why};
use crate::wiring;

pub(crate) use view::describe;
use view::{attempts_table, job, result, table, word};

const REDRAW: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List runs, newest first
    #[command(after_help = "\
Examples:
  punctual run list
  punctual run list --job hello --state failed,timed_out --since 1d
  punctual run list --key order-17 -o json
  punctual run list --state RUNNING --watch
  punctual run list --watch | tee runs.txt         a line for every change")]
    List(Listing),
    /// Show one run with its attempts and events
    #[command(after_help = "\
Examples:
  punctual run show 4683711365120
  punctual run show 4683711365120 --events -o json
  punctual run show 4683711365120 -o mermaid       the graph of a workflow")]
    Show {
        id: RunId,
        /// Include the events in json and yaml
        #[arg(long)]
        events: bool,
    },
    /// Print what happened to a run, and with --follow what happens, its progress included
    #[command(after_help = "\
Examples:
  punctual run events 4683711365120
  punctual run events 4683711365120 -f
  punctual run events 4683711365120 -f -o json     an object for every event")]
    Events(events::Events),
    /// Say why a run waits, was skipped or has not started
    #[command(after_help = "Example:\n  punctual run why 4683711365120")]
    Why { id: RunId },
    /// Print the output of a run
    #[command(after_help = "\
Examples:
  punctual run logs 4683711365120
  punctual run logs 4683711365120 -f
  punctual run logs 4683711365120 --attempt 2 --raw > output.bin")]
    Logs(Logs),
    /// Cancel a run: it is stopped, or never starts
    #[command(after_help = "\
Examples:
  punctual run cancel 4683711365120
  punctual run cancel 4683711365120 --now --comment \"wrong day\"
  punctual run cancel 4683711365120 --step load --comment \"wrong file\"")]
    Cancel {
        id: RunId,
        /// Kill its attempt at once, without a grace period
        #[arg(long)]
        now: bool,
        /// Stop only this step of a workflow
        #[arg(long, value_name = "STEP", conflicts_with = "now")]
        step: Option<String>,
        /// Why; it is recorded with your token's name
        #[arg(long, value_name = "TEXT", default_value = "")]
        comment: String,
    },
    /// Show the steps of a workflow and what became of each
    #[command(after_help = "\
Examples:
  punctual run graph 4683711365120
  punctual run graph 4683711365120 -o dot | dot -Tsvg > run.svg
  punctual run graph 4683711365120 -o mermaid")]
    Graph { id: RunId },
    /// List the steps that wait for an approval
    #[command(after_help = "Example:\n  punctual run approvals")]
    Approvals(approvals::Approvals),
    /// Approve a step that waits for an approval
    #[command(
        after_help = "Example:\n  punctual run approve 4683711365120 review --comment \"checked with the bank\""
    )]
    Approve(steps::Decide),
    /// Reject a step that waits for an approval: it fails
    #[command(
        after_help = "Example:\n  punctual run reject 4683711365120 review --comment \"numbers are wrong\""
    )]
    Reject(steps::Decide),
    /// Skip a step that has not started, or waits
    #[command(after_help = "Example:\n  punctual run skip 4683711365120 notify")]
    Skip(steps::Decide),
    /// Pause a workflow: no further step starts
    #[command(after_help = "Example:\n  punctual run pause 4683711365120 --comment \"database is slow\"")]
    Pause(steps::Pause),
    /// Continue a paused workflow
    #[command(
        after_help = "Example:\n  punctual run resume 4683711365120 --comment \"database is fast again\""
    )]
    Resume(steps::Pause),
    /// Move a running run to another worker: it continues there at its last checkpoint
    #[command(
        after_help = "Examples:\n  punctual run move 4683711365120\n  punctual run move 4683711365120 --to w2"
    )]
    Move {
        id: RunId,
        /// The name of the worker [default: any other]
        #[arg(long, value_name = "WORKER")]
        to: Option<String>,
    },
    /// Repeat a finished run: makes a new run with the same due time and the newest revision of its job
    #[command(after_help = "\
Examples:
  punctual run retry 4683711365120 --wait
  punctual run retry 4683711365120 --resume
  punctual run retry 4683711365120 --due 2026-12-01T08:00:00Z
  punctual run retry 4683711365120 --from failed
  punctual run retry 4683711365120 --from load,settle --step-params load='{\"day\": 7}'")]
    Retry(retry::Retry),
    /// Report the progress of this attempt; for scripts that a worker runs
    #[command(after_help = "\
Examples:
  punctual run report --percent 40 --message 'row 400,000'
  punctual run report --checkpoint '{\"row\": 400000}'
  punctual run report --percent 40 --checkpoint @state.json")]
    Report(report::Report),
    /// Wait until runs have ended; exit code 0 means that all succeeded
    #[command(after_help = "\
Examples:
  punctual run wait 4683711365120
  punctual run wait 4683711365120 4683711365121 --timeout 10m")]
    Wait(wait::Wait),
    /// Run a command once, without a job
    #[command(after_help = "\
Examples:
  punctual run submit --shell 'echo hi' --wait
  punctual run submit --delay 30m --key order-17 -- ./remind --order 17
  punctual run submit --route least_utilised --selector disk=ssd -- ./index
  punctual run submit --noop")]
    Submit(Box<SubmitArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct Listing {
    /// Only runs of this job
    #[arg(long)]
    job: Option<Name>,
    /// Only runs in these states, separated by commas; also PENDING, RUNNING, COMPLETED, FAILED
    #[arg(long)]
    state: Option<String>,
    /// Only runs with these triggers, separated by commas: schedule, misfire, manual, submit, retry, parent
    #[arg(long)]
    trigger: Option<String>,
    /// Only runs with this idempotency key
    #[arg(long)]
    key: Option<String>,
    /// Only child runs of this run, oldest first
    #[arg(long, value_name = "RUN")]
    parent: Option<RunId>,
    /// Also child runs: parts of split runs and steps of workflows
    #[arg(long)]
    children: bool,
    /// Only runs created since: how long ago, or an instant
    #[arg(long, value_name = "SINCE")]
    since: Option<Since>,
    /// Only runs created before: how long ago, or an instant
    #[arg(long, value_name = "UNTIL")]
    until: Option<Since>,
    /// The most to show
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Show every attempt of each run
    #[arg(long)]
    attempts: bool,
    /// Refresh every second
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The command, for /bin/sh -c
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["noop", "command"])]
    shell: Option<String>,
    /// A task that does nothing
    #[arg(long, conflicts_with = "command")]
    noop: bool,
    /// A program with its arguments, started without a shell
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["shell", "noop"])]
    command: Vec<String>,
    #[command(flatten)]
    start: StartArgs,
    /// 0 to 9; 9 starts first
    #[arg(long)]
    priority: Option<u8>,
    /// The number of attempts, the first included
    #[arg(long, value_name = "COUNT")]
    attempts: Option<u32>,
    /// How long an attempt may take
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    timeout: Option<Duration>,
    /// Start at most one attempt, even if it is lost
    #[arg(long)]
    at_most_once: bool,
    /// How to choose among the workers that fit
    #[arg(long, value_name = "STRATEGY", value_parser = strategy)]
    route: Option<Strategy>,
    /// Labels that the worker must have
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    selector: Vec<(String, String)>,
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, output } = session;
        match self {
            Verb::List(listing) if listing.watch => watch(session, &listing).await,
            Verb::List(listing) => list(session, &listing).await,
            Verb::Show { id, events } => show(session, id, events).await,
            Verb::Why { id } => why::show(session, &client.why_run(namespace, id).await?),
            Verb::Logs(logs) => logs.run(session).await,
            Verb::Wait(wait) => wait.run(session).await,
            Verb::Events(events) => events.run(session).await,
            Verb::Move { id, to: worker } => {
                let run = client.move_run(namespace, id, &Move { worker }).await?;
                output.show(&run, |_| format!("moving {id}: its attempt is told to stop"))
            }
            Verb::Graph { id } => steps::show(session, id).await,
            Verb::Approvals(approvals) => approvals.run(session).await,
            Verb::Approve(decide) => decide.run(session, "approve", "approved").await,
            Verb::Reject(decide) => decide.run(session, "reject", "rejected").await,
            Verb::Skip(decide) => decide.run(session, "skip", "skipped").await,
            Verb::Pause(pause) => pause.run(session).await,
            Verb::Resume(at) => steps::resume(session, at).await,
            Verb::Cancel { id, step: Some(step), comment, .. } => {
                steps::Decide { id, step, comment }.run(session, "cancel", "cancelling").await
            }
            Verb::Cancel { id, now, step: None, comment } => {
                let run = client.cancel_run(namespace, id, &Cancel { now, comment }).await?;
                output.show(&run, |_| match run.state.0 {
                    Status::Cancelled => format!("cancelled {id}"),
                    _ => format!("cancelling {id}: it is told to stop"),
                })
            }
            Verb::Report(report) => report.run(),
            Verb::Retry(retry) => retry.run(session).await,
            Verb::Submit(submit) => {
                let wait = submit.start.wait;
                let made = client.submit(namespace, &submit.into_wire()).await?;
                follow(session, made, wait).await
            }
        }
    }
}

impl SubmitArgs {
    fn into_wire(self) -> Submit {
        let task = match self.shell {
            Some(text) => Task { shell: Some(text), ..Task::default() },
            None if self.noop => Task { noop: Some(Noop {}), ..Task::default() },
            None => {
                let process = Process { command: self.command, ..Process::default() };
                Task { process: Some(process), ..Task::default() }
            }
        };
        let selector = (!self.selector.is_empty()).then(|| self.selector.into_iter().collect());
        let is_routed = self.route.is_some() || selector.is_some();
        Submit {
            task: Some(task),
            params: self.start.params.map(|params| params.0),
            due_at: self.start.at.map(Text),
            delay: self.start.delay.map(Span),
            key: self.start.key,
            priority: self.priority,
            retry: self.attempts.map(|attempts| Retry { attempts: Some(attempts), ..Retry::default() }),
            timeout: self.timeout.map(Span),
            at_most_once: self.at_most_once.then_some(true),
            route: is_routed.then_some(Route { strategy: self.route, selector, ..Route::default() }),
            ..Submit::default()
        }
    }
}

impl Listing {
    pub(crate) fn of_job(job: Name, limit: usize, attempts: bool) -> Self {
        let (state, trigger, key, parent, since, until) = (None, None, None, None, None, None);
        let (job, children, watch) = (Some(job), false, false);
        Listing { job, state, trigger, key, parent, children, since, until, limit, attempts, watch }
    }

    async fn read(&self, session: &Session) -> Result<(Vec<Run>, bool), Failure> {
        let now = wiring::now();
        let query = RunQuery {
            job: self.job.clone(),
            state: self.state.clone(),
            trigger: self.trigger.clone(),
            key: self.key.clone(),
            attempts: self.attempts.then_some(true),
            parent: self.parent.map(Text),
            children: self.children.then_some(true),
            since: self.since.map(|since| Text(since.at(now))),
            until: self.until.map(|until| Text(until.at(now))),
            ..RunQuery::default()
        };
        gather(self.limit, async |after, size| {
            let query = RunQuery { after, limit: Some(size), ..query.clone() };
            session.client.runs(&session.namespace, &query).await
        })
        .await
    }
}

pub(crate) async fn list(session: &Session, listing: &Listing) -> Result<(), Failure> {
    let (runs, more) = listing.read(session).await?;
    session.output.show(&runs, |output| {
        if listing.attempts { attempts_table(output, &runs) } else { table(output, &runs, wiring::now()) }
    })?;
    say_if_more(more);
    Ok(())
}

/// On a terminal the table is drawn again; a program gets one line or one object for every changed run.
async fn watch(session: &Session, listing: &Listing) -> Result<(), Failure> {
    let mut seen = BTreeMap::new();
    loop {
        let (runs, _) = listing.read(session).await?;
        if session.output.is_terminal() {
            session.output.show(&runs, |output| {
                // Move the cursor home and clear the screen, so that the new table replaces the old one.
                format!("\u{1b}[H\u{1b}[2J{}\n", table(output, &runs, wiring::now()))
            })?;
        } else {
            for run in runs.iter().rev().filter(|run| is_news(&mut seen, run)) {
                print(&line(session.output.format(), run, || short(run))?)?;
            }
            // Forget runs that have left the listing.
            let oldest = runs.last().map(|run| run.id.0);
            seen.retain(|run, _| oldest.is_some_and(|oldest| *run >= oldest));
        }
        tokio::time::sleep(REDRAW).await;
    }
}

/// Whether a run is new or has changed since it was last seen.
fn is_news(seen: &mut BTreeMap<RunId, (Status, u32, Option<u8>)>, run: &Run) -> bool {
    let now = (run.state.0, run.attempt, run.progress);
    seen.insert(run.id.0, now) != Some(now)
}

/// One of many objects: a line of words or of JSON, or a document of YAML.
fn line<T: Serialize>(format: Format, object: &T, words: impl FnOnce() -> String) -> Result<String, Failure> {
    match format {
        Format::Table | Format::Dot | Format::Mermaid => Ok(words()),
        Format::Json => serde_json::to_string(object).map_err(|error| Failure::new(Exit::Failed, error)),
        Format::Yaml => {
            let text = yaml::to_string(object).map_err(|error| Failure::new(Exit::Failed, error))?;
            Ok(format!("---\n{text}"))
        }
    }
}

fn short(run: &Run) -> String {
    [run.id.to_string(), job(run), run.state.to_string(), run.due_at.to_string(), result(run)].join("  ")
}

async fn show(session: &Session, id: RunId, events: bool) -> Result<(), Failure> {
    if matches!(session.output.format(), Format::Dot | Format::Mermaid) {
        return steps::show(session, id).await;
    }
    let run = session.client.run(&session.namespace, id, true).await?;
    let bare = Run { events: run.events.clone().filter(|_| events), ..run.clone() };
    let run = with_states(session, run).await?;
    let graph = if run.workflow { Some(steps::read(session, id).await?) } else { None };
    session.output.show(&bare, |output| {
        let steps = graph.as_ref().map(|graph| steps::table(output, graph));
        [Some(describe(output, &run)), steps].into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    })
}

/// A parent knows how its children ended; the states of live children are read from the server.
async fn with_states(session: &Session, mut run: Run) -> Result<Run, Failure> {
    let is_live = |child: &Child| child.state.is_none();
    if run.children.iter().flatten().any(is_live) {
        let of_parent = RunQuery { parent: Some(run.id), ..RunQuery::default() };
        let listed = gather(usize::MAX, async |after, size| {
            let query = RunQuery { after, limit: Some(size), ..of_parent.clone() };
            session.client.runs(&session.namespace, &query).await
        });
        let (listed, _) = listed.await?;
        let listed: BTreeMap<_, _> = listed.into_iter().map(|run| (run.id, run)).collect();
        for child in run.children.iter_mut().flatten().filter(|child| is_live(child)) {
            if let Some(listed) = listed.get(&child.run) {
                child.state = Some(listed.state);
                let name = |worker: &str| worker.split('@').next().unwrap_or_default().to_owned();
                child.worker = listed.worker.as_deref().map(name).or(child.worker.take());
            }
        }
    }
    Ok(run)
}

fn strategy(text: &str) -> Result<Strategy, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|_| {
        let known = punctual_core::job::Strategy::ALL.map(|strategy| word(strategy.into()));
        format!("known are {}", known.join(", "))
    })
}

/// Prints a new run or, with `wait`, waits for its end and prints that.
pub(crate) async fn follow(session: &Session, run: Run, wait: bool) -> Result<(), Failure> {
    if !wait || run.state.0 == Status::Skipped {
        session.output.show(&run, |_| made(&run))?;
        // The skip was printed; only the exit code is left.
        return if run.state.0 == Status::Skipped { Err(Failure::silent(Exit::Failed)) } else { Ok(()) };
    }
    wait::finish(session, run).await
}

/// One sentence about a new run.
pub(crate) fn made(run: &Run) -> String {
    let what = match &run.job {
        Some(job) => format!("run {} of {}/{job}", run.id, run.namespace),
        None => format!("run {}", run.id),
    };
    match (run.state.0, run.reason.as_deref()) {
        (Status::Skipped, why) => format!("{what} was skipped: {}", why.unwrap_or("no reason is known")),
        _ => format!("{what}, due {}", time::both(run.due_at.0, wiring::now())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(state: &str, attempt: u32) -> Run {
        serde_json::from_value(json!({
            "id": "7", "namespace": "default", "job": "a", "trigger": "manual", "state": state, "attempt": attempt,
            "due_at": "2027-01-15T08:00:00Z", "created_at": "2027-01-15T08:00:00Z",
        }))
        .expect("a run of an older server is still a run")
    }

    #[test]
    fn a_watcher_hears_of_a_run_once_for_every_change() {
        let mut seen = BTreeMap::new();
        let news = [("ready", 0), ("ready", 0), ("running", 1), ("running", 1), ("ready", 1), ("running", 2)];
        let heard = news.map(|(state, attempt)| is_news(&mut seen, &run(state, attempt)));
        assert_eq!(heard, [true, false, true, false, true, true]);
    }

    #[test]
    fn a_run_that_was_skipped_says_why() {
        let skipped = Run { reason: Some("an earlier run was active".to_owned()), ..run("skipped", 0) };
        assert_eq!(made(&skipped), "run 7 of default/a was skipped: an earlier run was active");
        assert!(made(&run("ready", 0)).contains(", due 2027-01-15"));
    }

    #[test]
    fn a_line_is_one_line_in_every_format() {
        let run = Run { output: Some("two\nlines".to_owned()), ..run("succeeded", 1) };
        for format in [Format::Table, Format::Json] {
            assert!(!line(format, &run, || short(&run)).unwrap().contains('\n'), "{format:?}");
        }
        assert!(line(Format::Yaml, &run, || short(&run)).unwrap().starts_with("---\n"));
    }
}
