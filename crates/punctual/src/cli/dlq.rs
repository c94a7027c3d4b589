//! `punctual dlq`: runs that used up their attempts and wait for someone to decide.

use clap::Subcommand;
use punctual_core::ids::RunId;
use punctual_wire::rest::{Again, DeadLetter};

use super::failure::Failure;
use super::job::Params;
use super::output::{one_line, print, text};
use super::{Session, run};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List what waits to be decided about
    #[command(after_help = "Example:\n  punctual dlq list -o json")]
    List {
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Try it again, as a new run
    #[command(
        after_help = "Examples:\n  punctual dlq replay 4683711365120\n  punctual dlq replay 4683711365120 --params '{\"region\": \"west\"}'"
    )]
    Replay {
        id: RunId,
        /// Parameters instead of those it had, as a JSON object
        #[arg(long, value_name = "JSON")]
        params: Option<Params>,
    },
    /// Let it go: it stays in the history and waits no longer
    #[command(after_help = "Example:\n  punctual dlq discard 4683711365120")]
    Discard { id: RunId },
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, output } = session;
        match self {
            Verb::List { limit } => {
                let letters = list(session, limit).await?;
                output.show(&letters, |_| table(session, &letters))
            }
            Verb::Replay { id, params } => {
                let again = Again { params: params.map(|params| params.0), key: None };
                let made = client.replay(namespace, id, &again).await?;
                output.show(&made, |_| run::made(&made))
            }
            Verb::Discard { id } => {
                client.discard(namespace, id).await?;
                print(&format!("discarded {id}"))
            }
        }
    }
}

async fn list(session: &Session, limit: usize) -> Result<Vec<DeadLetter>, Failure> {
    let mut letters = Vec::new();
    let mut after = None;
    while letters.len() < limit {
        let size = (limit - letters.len()).min(run::PAGE);
        let page = session.client.dead_letters(&session.namespace, after.as_deref(), size).await?;
        letters.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(letters)
}

fn table(session: &Session, letters: &[DeadLetter]) -> String {
    let now = wiring::now();
    let mut table = session.output.table(&["ID", "JOB", "ATTEMPTS", "DEAD SINCE (UTC)", "WHY"]);
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
