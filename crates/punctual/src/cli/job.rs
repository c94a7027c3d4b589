//! `punctual job`: what someone asked for.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use punctual_core::Timestamp;
use punctual_core::command::Expect;
use punctual_core::name::Name;
use punctual_wire::job_file::{self, Draft, JobFile, JsonObject, Schedule, Schedules, Task};
use punctual_wire::rest::{Job, JobState, Made, Start};
use punctual_wire::text::Span;
use punctual_wire::{Text, tree, yaml};

use super::failure::{Exit, Failure};
use super::output::{fields, one_line, print, text};
use super::time::{self, duration};
use super::{Session, run};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Create the jobs of a file, or change them to what it says
    #[command(after_help = "\
Examples:
  punctual job apply hello.yaml
  punctual job apply jobs/                 every .yaml, .yml and .json in a folder
  generate-jobs | punctual job apply -f -

If one job of all the files is wrong, nothing is applied.")]
    Apply(Apply),
    /// List the jobs of a namespace
    #[command(after_help = "Examples:\n  punctual job list\n  punctual job list -n payments -o json")]
    List {
        /// At most so many
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
        /// As a job file
        #[arg(long)]
        file: bool,
    },
    /// Start a job by hand
    #[command(after_help = "\
Examples:
  punctual job run hello
  punctual job run report --params '{\"region\": \"east\"}' --wait
  punctual job run report --delay 30m")]
    Run {
        name: Name,
        #[command(flatten)]
        start: StartArgs,
    },
    /// Let a job's schedule rest
    #[command(after_help = "Example:\n  punctual job pause hello")]
    Pause { name: Name },
    /// Let a job's schedule go on
    #[command(after_help = "Example:\n  punctual job resume hello")]
    Resume { name: Name },
    /// Show when a job is due next
    #[command(after_help = "Example:\n  punctual job next hello --count 10")]
    Next {
        name: Name,
        /// How many fires to show
        #[arg(long, default_value_t = 5)]
        count: usize,
    },
    /// List the runs of a job, newest first
    #[command(after_help = "Example:\n  punctual job history hello --limit 100")]
    History {
        name: Name,
        /// At most so many
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Delete a job: what waits is cancelled, what runs is stopped, its history stays
    #[command(after_help = "Example:\n  punctual job delete hello")]
    Delete { name: Name },
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Files or folders with jobs, `-` for stdin
    #[arg(value_name = "FILE", required_unless_present = "file")]
    files: Vec<PathBuf>,
    /// The same, as an option
    #[arg(short, long = "file", value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Only check the files
    #[arg(long)]
    dry_run: bool,
}

/// When and with what something starts by hand.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Parameters instead of the job's own, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) params: Option<Params>,
    /// Not now but at this instant
    #[arg(long, value_name = "INSTANT", conflicts_with = "delay")]
    pub(crate) at: Option<Timestamp>,
    /// Not now but after this long
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    pub(crate) delay: Option<Duration>,
    /// A key: asked again with the same one, the first run is the answer
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Wait until the run has ended; exit code 1 if not well
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
            Verb::List { limit } => list(session, limit).await,
            Verb::Show { name, file } => show(session, &name, file).await,
            Verb::Run { name, start } => {
                let wait = start.wait;
                let made = client.run_job(namespace, &name, &start.into_wire()).await?;
                run::follow(session, made, wait).await
            }
            Verb::Pause { name } => {
                let job = client.pause_job(namespace, &name).await?;
                output.show(&job, |_| format!("paused {namespace}/{name}"))
            }
            Verb::Resume { name } => {
                let job = client.resume_job(namespace, &name).await?;
                output.show(&job, |_| format!("resumed {namespace}/{name}, due next: {}", next_due(&job)))
            }
            Verb::Next { name, count } => next(session, &name, count).await,
            Verb::History { name, limit } => run::list(session, &run::Listing::of_job(name, limit)).await,
            Verb::Delete { name } => {
                client.delete_job(namespace, &name).await?;
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

impl Apply {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let drafts = self.read(session)?;
        if self.dry_run {
            return print(&format!("{} jobs are fine", drafts.len()));
        }
        let mut jobs = Vec::new();
        let mut said = Vec::new();
        for draft in &drafts {
            let file = JobFile::of(&draft.namespace, &draft.name, &draft.definition);
            let put = session.client.put_job(&draft.namespace, &draft.name, &file, Expect::Anything).await;
            let put = match put {
                Ok(put) => put,
                Err(error) => {
                    // What was applied before stays applied, and whoever asked should know.
                    print(&said.join("\n"))?;
                    return Err(error.into());
                }
            };
            said.push(sentence(draft, put.made, &put.job));
            jobs.push(put.job);
        }
        session.output.show(&jobs, |_| said.join("\n"))
    }

    /// Every job of every file, or everything that is wrong with them.
    fn read(&self, session: &Session) -> Result<Vec<Draft>, Failure> {
        let (mut drafts, mut mistakes) = (Vec::new(), Vec::new());
        let mut names = BTreeSet::new();
        for source in self.sources()? {
            let text = source.text()?;
            match job_file::read_all(&text, &session.namespace) {
                Ok(read) => {
                    for draft in &read {
                        if !names.insert((draft.namespace.clone(), draft.name.clone())) {
                            mistakes.push(format!("{source}: job `{}` is given twice", draft.name));
                        }
                    }
                    drafts.extend(read);
                }
                Err(errors) => mistakes.extend(errors.iter().map(|error| format!("{source}: {error}"))),
            }
        }
        if mistakes.is_empty() {
            Ok(drafts)
        } else {
            Err(Failure::all(Exit::Refused, mistakes).hint("nothing was applied"))
        }
    }

    fn sources(&self) -> Result<Vec<Source>, Failure> {
        let mut sources = Vec::new();
        for path in self.files.iter().chain(&self.file) {
            if path.as_os_str() == "-" {
                sources.push(Source::Stdin);
            } else if path.is_dir() {
                sources.extend(folder(path).map_err(|error| unreadable(path, &error))?);
            } else {
                sources.push(Source::File(path.clone()));
            }
        }
        Ok(sources)
    }
}

enum Source {
    Stdin,
    File(PathBuf),
}

impl Source {
    fn text(&self) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        // One byte more than may be: that is how we know there is more.
        let max = u64::try_from(tree::FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        match self {
            Source::Stdin => io::stdin().lock().take(max).read_to_end(&mut bytes).map_err(Failure::io)?,
            Source::File(path) => fs::File::open(path)
                .and_then(|file| file.take(max).read_to_end(&mut bytes))
                .map_err(|error| unreadable(path, &error))?,
        };
        String::from_utf8(bytes)
            .map_err(|_| Failure::new(Exit::Refused, format!("{self}: this is not UTF-8 text")))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Stdin => f.write_str("stdin"),
            Source::File(path) => path.display().fmt(f),
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{}: {error}", path.display()))
}

/// The job files of a folder, in order of their names.
fn folder(path: &Path) -> io::Result<Vec<Source>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let is_job = file.extension().is_some_and(|kind| kind == "yaml" || kind == "yml" || kind == "json");
        if is_job && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files.into_iter().map(Source::File).collect())
}

fn sentence(draft: &Draft, made: Made, job: &Job) -> String {
    let subject = format!("{} {}/{}", made.as_str(), draft.namespace, draft.name);
    match made {
        Made::Unchanged => subject,
        Made::Created | Made::Changed => format!("{subject}, due next: {}", next_due(job)),
    }
}

fn next_due(job: &Job) -> String {
    match (job.next_due_at, job.state) {
        (Some(due), _) => time::both(due.0, wiring::now()),
        (None, JobState::Paused) => "when it is resumed".to_owned(),
        (None, JobState::Active) => "when someone asks".to_owned(),
    }
}

async fn list(session: &Session, limit: usize) -> Result<(), Failure> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut after = None;
    while jobs.len() < limit {
        let size = (limit - jobs.len()).min(run::PAGE);
        let page = session.client.jobs(&session.namespace, after.as_deref(), size).await?;
        jobs.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    session.output.show(&jobs, |output| {
        let now = wiring::now();
        let mut table = output.table(&["NAME", "STATE", "REVISION", "DUE NEXT (UTC)", "SCHEDULE", "TASK"]);
        for job in &jobs {
            let due = job.next_due_at.map_or("-".to_owned(), |due| output.time(due.0, now));
            table.add_row([
                job.file.name.as_ref().map(ToString::to_string).unwrap_or_default(),
                state(job).to_owned(),
                job.revision.to_string(),
                due,
                one_line(&schedules(job.file.schedule.as_ref()), 40),
                one_line(&task(job.file.task.as_ref()), 60),
            ]);
        }
        text(table)
    })?;
    run::say_if_more(after.is_some());
    Ok(())
}

async fn show(session: &Session, name: &Name, file: bool) -> Result<(), Failure> {
    let job = session.client.job(&session.namespace, name).await?;
    if file {
        return print(&yaml::to_string(&job.file).map_err(|error| Failure::new(Exit::Failed, error))?);
    }
    session.output.show(&job, |_| {
        let now = wiring::now();
        let yaml = |text: Result<String, String>| text.ok().map(|text| text.trim_end().to_owned());
        fields(&[
            ("job", Some(format!("{}/{name}", session.namespace))),
            ("id", Some(job.id.to_string())),
            ("description", job.file.description.clone()),
            ("state", Some(state(&job).to_owned())),
            ("revision", Some(job.revision.to_string())),
            ("schedule", Some(schedules(job.file.schedule.as_ref()))),
            ("due next", Some(next_due(&job))),
            ("task", Some(task(job.file.task.as_ref()))),
            ("params", job.file.params.as_ref().and_then(|params| serde_json::to_string(params).ok())),
            ("timeout", job.file.timeout.and_then(|timeout| yaml(yaml::to_string(&timeout)))),
            ("retry", job.file.retry.as_ref().and_then(|retry| yaml(yaml::to_string(retry)))),
            ("overlap", job.file.overlap.and_then(|overlap| yaml(yaml::to_string(&overlap)))),
            ("misfire", job.file.misfire.as_ref().and_then(|misfire| yaml(yaml::to_string(misfire)))),
            ("created", Some(time::both(job.created_at.0, now))),
            ("changed", Some(time::both(job.updated_at.0, now))),
        ])
    })
}

async fn next(session: &Session, name: &Name, count: usize) -> Result<(), Failure> {
    let fires = session.client.next_fires(&session.namespace, name, count).await?.items;
    session.output.show(&fires, |_| {
        let now = wiring::now();
        let lines: Vec<String> = fires.iter().map(|fire| time::both(fire.due_at.0, now)).collect();
        lines.join("\n")
    })
}

fn state(job: &Job) -> &'static str {
    match job.state {
        JobState::Active => "active",
        JobState::Paused => "paused",
    }
}

/// A schedule in a few words.
fn schedules(schedules: Option<&Schedules>) -> String {
    match schedules {
        None => "by hand".to_owned(),
        Some(Schedules::One(schedule)) => one_schedule(schedule),
        Some(Schedules::Many(list)) => list.iter().map(one_schedule).collect::<Vec<_>>().join(", "),
    }
}

fn one_schedule(schedule: &Schedule) -> String {
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
        _ => "noop".to_owned(),
    }
}
