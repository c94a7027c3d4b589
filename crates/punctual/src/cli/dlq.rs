//! `punctual dlq`: dead letters, runs that used up their attempts and wait for a replay or a discard.

use clap::{Args, Subcommand};
use punctual_client::DeadLetterQuery;
use punctual_core::Timestamp;
use punctual_core::ids::RunId;
use punctual_core::name::Name;
use punctual_wire::Text;
use punctual_wire::rest::{Action, Again, DECIDED_MAX, DeadLetter, Decide, Decision};

use super::confirm::confirm;
use super::failure::{Exit, Failure};
use super::job::Params;
use super::output::{fields, one_line, print, text};
use super::paging::{gather, say_if_more};
use super::time::{self, Since};
use super::{Session, progress, run};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the dead letters, the oldest first
    #[command(
        after_help = "Examples:\n  punctual dlq list -o json\n  punctual dlq list --job nightly --since 1d"
    )]
    List {
        /// Only dead letters of this job
        #[arg(long)]
        job: Option<Name>,
        /// Only runs that became dead letters since: how long ago, or an instant
        #[arg(long, value_name = "SINCE")]
        since: Option<Since>,
        /// The most to show
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Show one dead letter, with its parameters and every attempt
    #[command(after_help = "Example:\n  punctual dlq show 4683711365120")]
    Show { id: RunId },
    /// Replay dead letters as new runs with the same due times
    #[command(after_help = "\
Examples:
  punctual dlq replay 4683711365120
  punctual dlq replay 4683711365120 --params '{\"region\": \"west\"}'
  punctual dlq replay --all --job nightly")]
    Replay {
        #[command(flatten)]
        which: Which,
        /// Other parameters, as a JSON object
        #[arg(long, value_name = "JSON")]
        params: Option<Params>,
        /// Another due time for the new runs
        #[arg(long, value_name = "INSTANT")]
        due: Option<Timestamp>,
        /// Start at the last checkpoint of each run
        #[arg(long)]
        resume: bool,
    },
    /// Discard dead letters; their runs stay in the history
    #[command(
        after_help = "Examples:\n  punctual dlq discard 4683711365120\n  punctual dlq discard --all --job nightly --yes"
    )]
    Discard {
        #[command(flatten)]
        which: Which,
        /// Discard all of them without asking
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Which {
    #[arg(value_name = "ID", required_unless_present = "all")]
    ids: Vec<RunId>,
    /// Every dead letter of a job
    #[arg(long, requires = "job", conflicts_with = "ids")]
    all: bool,
    /// The job
    #[arg(long, requires = "all")]
    job: Option<Name>,
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, output } = session;
        match self {
            Verb::List { job, since, limit } => {
                let since = since.map(|since| Text(since.at(wiring::now())));
                let query = DeadLetterQuery { job, since, ..DeadLetterQuery::default() };
                let (letters, more) = list(session, query, limit).await?;
                output.show(&letters, |_| table(session, &letters))?;
                say_if_more(more);
                Ok(())
            }
            Verb::Show { id } => show(session, id).await,
            Verb::Replay { which: Which { ids, all: false, .. }, params, due, resume } if ids.len() == 1 => {
                let params = params.map(|params| params.0);
                let again = Again { params, due_at: due.map(Text), resume, ..Again::default() };
                let made = client.replay(namespace, ids[0], &again).await?;
                run::follow(session, made, false).await
            }
            Verb::Replay { which, params, due, resume } => {
                let (params, due_at) = (params.map(|params| params.0), due.map(Text));
                let ask = Decide { params, due_at, resume, ..Decide::of(Action::Replay) };
                decide(session, &which.find(session).await?, ask).await
            }
            Verb::Discard { which: Which { ids, all: false, .. }, .. } if ids.len() == 1 => {
                client.discard(namespace, ids[0]).await?;
                print(&format!("discarded {}", ids[0]))
            }
            Verb::Discard { which, yes } => {
                let ids = which.find(session).await?;
                if which.all && !ids.is_empty() {
                    confirm(&format!("Discard {} dead letters?", ids.len()), yes)?;
                }
                decide(session, &ids, Decide::of(Action::Discard)).await
            }
        }
    }
}

impl Which {
    /// The dead letters that exist now; a replay that fails makes a new one, which is not included.
    async fn find(&self, session: &Session) -> Result<Vec<RunId>, Failure> {
        if !self.all {
            return Ok(self.ids.clone());
        }
        let query = DeadLetterQuery { job: self.job.clone(), ..DeadLetterQuery::default() };
        let (letters, _) = list(session, query, usize::MAX).await?;
        Ok(letters.iter().map(|letter| letter.id.0).collect())
    }
}

async fn list(
    session: &Session,
    query: DeadLetterQuery,
    limit: usize,
) -> Result<(Vec<DeadLetter>, bool), Failure> {
    gather(limit, async |after, size| {
        let query = DeadLetterQuery { after, limit: Some(size), ..query.clone() };
        session.client.dead_letters(&session.namespace, &query).await
    })
    .await
}

/// Replays or discards many dead letters, in several requests, and reports each result.
async fn decide(session: &Session, ids: &[RunId], ask: Decide) -> Result<(), Failure> {
    let action = ask.action;
    let mut decisions: Vec<Decision> = Vec::new();
    let bar = progress::bar("deciding", ids.len());
    for some in ids.chunks(DECIDED_MAX) {
        let ids = Some(some.iter().copied().map(Text).collect());
        let ask = Decide { ids, ..ask.clone() };
        decisions.extend(session.client.decide(&session.namespace, &ask).await?.items);
        bar.inc(u64::try_from(some.len()).unwrap_or(0));
    }
    bar.finish_and_clear();
    session.output.show(&decisions, |_| {
        let lines: Vec<String> = decisions.iter().map(|one| said(action, one)).collect();
        if lines.is_empty() { "there is nothing to decide about".to_owned() } else { lines.join("\n") }
    })?;
    match decisions.iter().filter(|one| !one.done).count() {
        0 => Ok(()),
        left => Err(Failure::new(
            Exit::Failed,
            format!("{left} of {} were not {}", decisions.len(), done(action)),
        )),
    }
}

fn done(action: Action) -> &'static str {
    match action {
        Action::Replay => "replayed",
        Action::Discard => "discarded",
    }
}

fn said(action: Action, decision: &Decision) -> String {
    let Decision { id, run, .. } = decision;
    match (decision.done, run, &decision.problem) {
        (true, Some(run), _) => format!("replayed {id} as run {run}"),
        (true, None, _) => format!("{} {id}", done(action)),
        (false, Some(run), _) => format!("not replayed {id}: run {run} was skipped at once"),
        (false, None, Some(problem)) => format!("not {} {id}: {problem}", done(action)),
        (false, None, None) => format!("not {} {id}", done(action)),
    }
}

async fn show(session: &Session, id: RunId) -> Result<(), Failure> {
    let letter = session.client.dead_letter(&session.namespace, id).await?;
    let run = session.client.run(&session.namespace, id, true).await?;
    session.output.show(&letter, |output| {
        let now = wiring::now();
        let params = letter.params.as_ref().and_then(|params| serde_json::to_string(params).ok());
        let facts = fields(&[("dead since", Some(time::both(letter.dead_since.0, now))), ("params", params)]);
        format!("{facts}\n\n{}", run::describe(output, &run))
    })
}

fn table(session: &Session, letters: &[DeadLetter]) -> String {
    let now = wiring::now();
    let titles = ["ID", "JOB", "ATTEMPTS", "DEAD SINCE (UTC)", "WHY"];
    let mut table = session.output.table(&titles).sparing(&["ATTEMPTS", "WHY", "DEAD SINCE (UTC)"]);
    for letter in letters {
        let run = letter.run.as_ref();
        let why = run.and_then(|run| run.reason.as_deref().or(run.error.as_deref())).unwrap_or("-");
        table.add_row([
            letter.id.to_string(),
            letter.job.as_ref().map_or("-".to_owned(), ToString::to_string),
            run.map_or("-".to_owned(), |run| run.attempt.to_string()),
            session.output.time(letter.dead_since.0, now),
            one_line(why, 80),
        ]);
    }
    text(table)
}
