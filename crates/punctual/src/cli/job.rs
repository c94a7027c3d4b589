//! `punctual job`: jobs.

mod apply;
mod backfill;
mod diff;
mod files;
pub(super) mod graph;
mod pause;
mod plan;
mod revisions;

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use punctual_core::Timestamp;
use punctual_core::command::Expect;
use punctual_core::name::Name;
use punctual_core::schedule::Language;
use punctual_wire::job_file::{JsonObject, Schedule, Schedules, Task};
use punctual_wire::rest::{Fire, Job, JobState, Start};
use punctual_wire::text::Span;
use punctual_wire::{Text, tree, yaml};

use super::failure::{Exit, Failure};
use super::output::{Tone, fields_with_state, one_line, print, text};
use super::paging::{gather, say_if_more};
use super::time::{self, duration};
use super::{Session, run, why};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Create or change the jobs in files
    #[command(after_help = "\
Examples:
  punctual job apply hello.yaml
  punctual job apply jobs/                 every .yaml, .yml and .json in a folder
  punctual job apply jobs/ --dry-run       print what it would do
  punctual job apply jobs/ --prune         and delete the jobs of these namespaces that no file names
  generate-jobs | punctual job apply -f -

If one job of all the files is wrong, nothing is applied. Applied again, it changes nothing.")]
    Apply(apply::Apply),
    /// Show what an apply would change
    #[command(after_help = "\
Examples:
  punctual job diff hello.yaml
  punctual job diff jobs/ --prune          also what no file names

Exit codes are those of diff: 0 nothing differs, 1 something does, others: it could not be told.")]
    Diff(diff::Diff),
    /// Check a workflow in a file and draw its graph, without a server
    #[command(after_help = graph::EXAMPLES)]
    Graph(graph::Graph),
    /// List the jobs of a namespace
    #[command(after_help = "Examples:\n  punctual job list\n  punctual job list -n payments -o json")]
    List {
        /// The most to show
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Show one job
    #[command(after_help = "\
Examples:
  punctual job show hello
  punctual job show hello --file > hello.yaml      as a job file, to edit and apply again")]
    Show {
        name: Name,
        /// Print it as a job file
        #[arg(long)]
        file: bool,
    },
    /// Say why a job does not run now
    #[command(after_help = "Example:\n  punctual job why hello")]
    Why { name: Name },
    /// Start a job by hand
    #[command(after_help = "\
Examples:
  punctual job run hello
  punctual job run report --params '{\"region\": \"east\"}' --wait
  punctual job run report --delay 30m

The exit code is 1 if the overlap policy of the job skips the run.")]
    Run {
        name: Name,
        #[command(flatten)]
        start: StartArgs,
    },
    /// Make up for the due times of a job in a span of time
    #[command(after_help = backfill::EXAMPLES)]
    Backfill(backfill::Backfill),
    /// Pause a job: it does not fire until it is resumed
    #[command(after_help = "\
Examples:
  punctual job pause hello
  punctual job pause hello --reason 'the bank is closed' --until 2026-12-27T06:00:00Z")]
    Pause(pause::Pause),
    /// Resume a paused job
    #[command(after_help = "Example:\n  punctual job resume hello")]
    Resume { name: Name },
    /// Show when a job is due next
    #[command(after_help = "\
Examples:
  punctual job next hello --count 10
  punctual job next hello --from 2026-12-24T00:00:00Z")]
    Next {
        name: Name,
        /// How many fires to show
        #[arg(long, default_value_t = 5)]
        count: usize,
        /// Show fires at or after this instant, instead of now
        #[arg(long, value_name = "INSTANT")]
        from: Option<Timestamp>,
    },
    /// Explain a cron expression, with its next times
    #[command(after_help = "\
Examples:
  punctual job explain '0 1 * * *' --timezone Asia/Shanghai
  punctual job explain '0 0 13 * FRI' --lang zh --count 3
  punctual job explain '30 2 * * *' --timezone America/New_York --from 2026-03-07T12:00:00Z")]
    Explain(super::explain::Explain),
    /// List the runs of a job, newest first
    #[command(
        after_help = "Examples:\n  punctual job history hello --limit 100\n  punctual job history hello --attempts"
    )]
    History {
        name: Name,
        /// The most to show
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Show every attempt of each run
        #[arg(long)]
        attempts: bool,
    },
    /// Show the log of a job: its commands, times and output, newest first
    #[command(after_help = "Example:\n  punctual job log hello --limit 5 -o json")]
    Log {
        name: Name,
        /// The most to show
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// List the skipped due times of a job, with the reason, newest first
    ///
    /// A range of due times is one line. A run that was made and then skipped, because an earlier one was still
    /// running, is a run: `punctual run list --job NAME --state skipped` lists those.
    #[command(after_help = "Example:\n  punctual job skips hello --limit 100")]
    Skips {
        name: Name,
        /// The most to show
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// List the revisions of a job, newest first, or show what one changed
    #[command(after_help = "\
Examples:
  punctual job revisions hello
  punctual job revisions hello --diff 3             what revision 3 changed
  punctual job revisions hello --diff 3 --from 1    and all since revision 1")]
    Revisions(revisions::Revisions),
    /// Restore an old revision of a job, as a new revision
    #[command(after_help = "Example:\n  punctual job rollback hello --to 3")]
    Rollback {
        name: Name,
        /// The revision to go back to
        #[arg(long, value_name = "REVISION")]
        to: u32,
    },
    /// Delete a job: its runs are cancelled or stopped, its history stays
    #[command(after_help = "Example:\n  punctual job delete hello")]
    Delete { name: Name },
}

/// When and with what something starts by hand.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Parameters instead of the job's own, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) params: Option<Params>,
    /// The due time of the run [default: now]
    #[arg(long, value_name = "INSTANT", conflicts_with = "delay")]
    pub(crate) at: Option<Timestamp>,
    /// Make the run due after this long
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    pub(crate) delay: Option<Duration>,
    /// An idempotency key: a repeated request returns the first run
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Wait until the run has ended; exit code 0 means success
    #[arg(long)]
    pub(crate) wait: bool,
}

/// A JSON object on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Params(pub(crate) JsonObject);

impl FromStr for Params {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        tree::from_json(text.as_bytes()).map(Params).map_err(|error| format!("{error}; write a JSON object"))
    }
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, output } = session;
        match self {
            Verb::Apply(apply) => apply.run(session).await,
            Verb::Diff(diff) => {
                let differs = diff.run(session).await.map_err(Failure::unlike_a_difference)?;
                // The differences were printed; only the exit code is left.
                if differs { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
            }
            Verb::Graph(graph) => graph.run(session),
            Verb::List { limit } => list(session, limit).await,
            Verb::Show { name, file } => show(session, &name, file).await,
            Verb::Why { name } => why::show(session, &client.why_job(namespace, &name).await?),
            Verb::Run { name, start } => {
                let wait = start.wait;
                let made = client.run_job(namespace, &name, &start.into_wire()).await?;
                run::follow(session, made, wait).await
            }
            Verb::Backfill(backfill) => backfill.run(session).await,
            Verb::Pause(pause) => pause.run(session).await,
            Verb::Resume { name } => {
                let job = client.resume_job(namespace, &name).await?;
                output.show(&job, |_| format!("resumed {namespace}/{name}, due next: {}", next_due(&job)))
            }
            Verb::Next { name, count, from } => next(session, &name, count, from).await,
            Verb::Explain(explain) => explain.run(session).await,
            Verb::History { name, limit, attempts } => {
                run::list(session, &run::Listing::of_job(name, limit, attempts)).await
            }
            Verb::Log { name, limit } => log(session, &name, limit).await,
            Verb::Skips { name, limit } => skips(session, &name, limit).await,
            Verb::Revisions(revisions) => revisions.run(session).await,
            Verb::Rollback { name, to } => revisions::roll_back(session, &name, to).await,
            Verb::Delete { name } => {
                client.delete_job(namespace, &name, Expect::Anything).await?;
                print(&format!("deleted {namespace}/{name}"))
            }
        }
    }
}

impl StartArgs {
    fn into_wire(self) -> Start {
        Start {
            params: self.params.map(|params| params.0),
            due_at: self.at.map(Text),
            delay: self.delay.map(Span),
            key: self.key,
        }
    }
}

fn next_due(job: &Job) -> String {
    match (job.next_due_at, job.state) {
        (Some(due), _) => time::both(due.0, wiring::now()),
        (None, JobState::Paused) => "when it is resumed".to_owned(),
        (None, JobState::Finished) => "never: its schedule is used up".to_owned(),
        // Such a schedule has no due time only while a run of the job is active.
        (None, JobState::Active) => match job.file.schedule.as_ref().and_then(Schedules::after_finish) {
            Some(pause) => {
                format!("{} after the active run ends", punctual_core::schedule::format_duration(pause))
            }
            None => "when started by hand".to_owned(),
        },
    }
}

async fn list(session: &Session, limit: usize) -> Result<(), Failure> {
    let (jobs, more) = gather(limit, async |after, size| {
        session.client.jobs(&session.namespace, after.as_deref(), size).await
    })
    .await?;
    session.output.show(&jobs, |output| {
        let now = wiring::now();
        let titles = ["NAME", "STATE", "REVISION", "DUE NEXT (UTC)", "SCHEDULE", "TASK"];
        let mut table = output.table(&titles).sparing(&["REVISION", "TASK", "SCHEDULE"]);
        for job in &jobs {
            let due = job.next_due_at.map_or("-".to_owned(), |due| output.time(due.0, now));
            table.add_row([
                Cell::new(job.file.name.as_ref().map(ToString::to_string).unwrap_or_default()),
                output.word(pause::state(job), tone(job)),
                Cell::new(job.revision),
                Cell::new(due),
                Cell::new(one_line(&schedules(job.file.schedule.as_ref()), 40)),
                Cell::new(one_line(&task(job.file.task.as_ref()), 60)),
            ]);
        }
        text(table)
    })?;
    say_if_more(more);
    Ok(())
}

async fn skips(session: &Session, name: &Name, limit: usize) -> Result<(), Failure> {
    let (skips, more) = gather(limit, async |after, size| {
        session.client.skips(&session.namespace, name, after.as_deref(), size).await
    })
    .await?;
    session.output.show(&skips, |output| {
        let now = wiring::now();
        let mut table = output.table(&["FROM (UTC)", "TO (UTC)", "DUE TIMES", "REASON", "REVISION"]);
        for skip in &skips {
            table.add_row([
                output.time(skip.from.0, now),
                output.time(skip.to.0, now),
                skip.count.map_or("many".to_owned(), |count| count.to_string()),
                skip.reason.clone(),
                skip.revision.to_string(),
            ]);
        }
        text(table)
    })?;
    say_if_more(more);
    Ok(())
}

async fn show(session: &Session, name: &Name, file: bool) -> Result<(), Failure> {
    let job = session.client.job(&session.namespace, name).await?;
    if file {
        return print(&yaml::to_string(&job.file).map_err(|error| Failure::new(Exit::Failed, error))?);
    }
    session.output.show(&job, |output| {
        let now = wiring::now();
        let spread_key = format!("{}/{name}", session.namespace);
        let yaml = |text: Result<String, String>| text.ok().map(|text| text.trim_end().to_owned());
        let facts = [
            ("job", Some(format!("{}/{name}", session.namespace))),
            ("id", Some(job.id.to_string())),
            ("description", job.file.description.clone()),
            ("state", Some(job.state.as_str().to_owned())),
            ("paused", pause::told(&job)),
            ("revision", Some(job.revision.to_string())),
            ("schedule", Some(schedules(job.file.schedule.as_ref()))),
            (
                "in words",
                job.file
                    .schedule
                    .as_ref()
                    .and_then(|schedule| schedule.describe(&spread_key, Language::English)),
            ),
            ("due next", Some(next_due(&job))),
            ("task", Some(task(job.file.task.as_ref()))),
            ("params", job.file.params.as_ref().and_then(|params| serde_json::to_string(params).ok())),
            ("timeout", job.file.timeout.and_then(|timeout| yaml(yaml::to_string(&timeout)))),
            ("retry", job.file.retry.as_ref().and_then(|retry| yaml(yaml::to_string(retry)))),
            ("overlap", job.file.overlap.and_then(|overlap| yaml(yaml::to_string(&overlap)))),
            ("limits", job.file.limits.as_ref().and_then(|limits| yaml(yaml::to_string(limits)))),
            ("misfire", job.file.misfire.as_ref().and_then(|misfire| yaml(yaml::to_string(misfire)))),
            ("created", Some(time::both(job.created_at.0, now))),
            ("changed", Some(time::both(job.updated_at.0, now))),
        ];
        fields_with_state(&facts, output, tone(&job))
    })
}

async fn next(session: &Session, name: &Name, count: usize, from: Option<Timestamp>) -> Result<(), Failure> {
    let fires = session.client.next_fires(&session.namespace, name, count, from.map(Text)).await?.items;
    let job = if fires.is_empty() { Some(session.client.job(&session.namespace, name).await?) } else { None };
    session.output.show(&fires, |_| {
        let now = wiring::now();
        let line = |fire: &Fire| format!("{}  ({})", fire.local, time::relative(fire.due_at.0, now));
        match job {
            Some(job) => next_due(&job),
            None => fires.iter().map(line).collect::<Vec<_>>().join("\n"),
        }
    })
}

async fn log(session: &Session, name: &Name, limit: usize) -> Result<(), Failure> {
    let (records, more) = gather(limit, async |after, size| {
        session.client.job_log(&session.namespace, name, after.as_deref(), size).await
    })
    .await?;
    session.output.show(&records, |output| {
        let now = wiring::now();
        let mut table = output.table(&["PLANNED (UTC)", "STATE", "LATE", "TOOK", "COMMAND", "SAID"]);
        for record in &records {
            let late = record.start_time.map(|start| time::took(record.plan_time.0, start.0));
            let took = record.start_time.zip(record.end_time).map(|(from, to)| time::took(from.0, to.0));
            let said = if record.err.is_empty() { &record.output } else { &record.err };
            table.add_row([
                Cell::new(output.time(record.plan_time.0, now)),
                output.state(record.state.0),
                Cell::new(late.unwrap_or_else(|| "-".to_owned())),
                Cell::new(took.unwrap_or_else(|| "-".to_owned())),
                Cell::new(one_line(&record.command, 40)),
                Cell::new(one_line(said, 60)),
            ]);
        }
        text(table)
    })?;
    say_if_more(more);
    Ok(())
}

fn tone(job: &Job) -> Tone {
    match job.state {
        JobState::Active => Tone::Good,
        JobState::Paused | JobState::Finished => Tone::Odd,
    }
}

/// A short description of a schedule.
fn schedules(schedules: Option<&Schedules>) -> String {
    match schedules {
        None => "by hand".to_owned(),
        Some(Schedules::One(schedule)) => one_schedule(schedule),
        Some(Schedules::Many(list)) => list.iter().map(one_schedule).collect::<Vec<_>>().join(", "),
    }
}

fn one_schedule(schedule: &Schedule) -> String {
    match &schedule.calendar {
        Some(calendar) => format!("{} on {calendar}", when(schedule)),
        None => when(schedule),
    }
}

fn when(schedule: &Schedule) -> String {
    let span = |span: Span| punctual_core::schedule::format_duration(span.0);
    match schedule {
        Schedule { cron: Some(cron), timezone, .. } => match timezone.as_deref() {
            None | Some("UTC") => cron.clone(),
            Some(zone) => format!("{cron} {zone}"),
        },
        Schedule { every: Some(period), .. } => format!("every {}", span(*period)),
        Schedule { after_finish: Some(pause), .. } => format!("{} after finish", span(*pause)),
        Schedule { at: Some(at), .. } => format!("at {at}"),
        _ => "by hand".to_owned(),
    }
}

fn task(task: Option<&Task>) -> String {
    match task {
        Some(Task { shell: Some(text), .. }) => format!("shell: {}", text.trim_end()),
        Some(Task { process: Some(process), .. }) => format!("process: {}", process.command.join(" ")),
        Some(Task { http: Some(http), .. }) => {
            let method = http.method.and_then(|method| serde_json::to_value(method).ok());
            let method = method.as_ref().and_then(|method| method.as_str()).unwrap_or("GET");
            format!("http: {method} {}", http.url.as_deref().unwrap_or_default())
        }
        Some(Task { function: Some(name), .. }) => format!("function: {name}"),
        Some(Task { queue: Some(queue), .. }) => {
            format!("queue: {}", queue.name.as_deref().unwrap_or_default())
        }
        _ => "noop".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_next_due(schedule: &serde_json::Value, expected: &str) {
        let job: Job = serde_json::from_value(json!({
            "id": "7", "name": "a", "namespace": "default", "schedule": schedule, "task": { "noop": {} }, "revision": 1,
            "state": "active", "created_at": "2027-01-15T08:00:00Z", "updated_at": "2027-01-15T08:00:00Z",
            "next_due_at": null, "fired_through": "2027-01-15T08:00:00Z",
        }))
        .expect("this is a job");
        assert_eq!(next_due(&job), expected, "{schedule}");
    }

    #[test]
    fn a_task_is_shown_with_its_kind() {
        let shown =
            |text: serde_json::Value| task(Some(&serde_json::from_value(text).expect("this is a task")));
        assert_eq!(shown(json!({ "queue": { "name": "orders" } })), "queue: orders");
        assert_eq!(shown(json!({ "function": "settle" })), "function: settle");
        assert_eq!(shown(json!({ "noop": {} })), "noop");
    }

    #[test]
    fn a_job_without_a_due_time_says_when_it_runs() {
        check_next_due(&json!({ "manual": true }), "when started by hand");
        check_next_due(&json!({ "after_finish": "10m" }), "10m after the active run ends");
        check_next_due(
            &json!([{ "after_finish": "1h" }, { "after_finish": "5m" }]),
            "5m after the active run ends",
        );
    }
}
