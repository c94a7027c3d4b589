//! Reports of progress: one command inside, whichever way they come in.
//!
//! A caller with the key of an attempt reports for that attempt alone: the key names it. Every report is counted by its
//! way and its outcome. Reports of workers are counted by the node (`ProgressCounts`).
//!
//! ```text
//!  rest::progress ──┐
//!  grpc::attempts ──┼──▶ attempt_named ──▶ note ──▶ Command::Progress
//!  progress_queue ──┘
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::ids::{RunId, Token};
use punctual_core::name::Namespace;
use punctual_core::progress::Progress;
use punctual_core::run::Run;
use punctual_node::handle::ProgressCounts;
use punctual_store::RunFilter;
use punctual_wire::rest::{Code, Problem};

use crate::Endpoints;
use crate::auth::{AttemptOf, Refused};
use crate::rest::ask::unexpected;
use crate::rest::problem::Failed;

/// How a report came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Rest,
    Grpc,
    Queue,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Accepted,
    /// Ignored, because a newer report came before.
    Late,
    OutdatedToken,
    WrongState,
    NotFound,
    Unauthorized,
    Invalid,
    /// It could not be decided; the sender may repeat it.
    Unavailable,
}

impl Way {
    const ALL: [Way; 3] = [Way::Rest, Way::Grpc, Way::Queue];

    fn as_str(self) -> &'static str {
        match self {
            Way::Rest => "rest",
            Way::Grpc => "grpc",
            Way::Queue => "queue",
        }
    }
}

impl Outcome {
    const ALL: [Outcome; 8] = [
        Outcome::Accepted,
        Outcome::Late,
        Outcome::OutdatedToken,
        Outcome::WrongState,
        Outcome::NotFound,
        Outcome::Unauthorized,
        Outcome::Invalid,
        Outcome::Unavailable,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Outcome::Accepted => "accepted",
            Outcome::Late => "late",
            Outcome::OutdatedToken => "outdated_token",
            Outcome::WrongState => "wrong_state",
            Outcome::NotFound => "not_found",
            Outcome::Unauthorized => "unauthorized",
            Outcome::Invalid => "invalid",
            Outcome::Unavailable => "unavailable",
        }
    }

    pub(crate) fn of_problem(code: Code) -> Outcome {
        match code {
            Code::OutdatedToken => Outcome::OutdatedToken,
            Code::WrongState => Outcome::WrongState,
            Code::NoSuchRun => Outcome::NotFound,
            Code::Unauthenticated | Code::Forbidden | Code::TooManyFailures => Outcome::Unauthorized,
            code if (400..500).contains(&code.status()) => Outcome::Invalid,
            _ => Outcome::Unavailable,
        }
    }

    pub(crate) fn of(result: &Result<Outcome, Failed>) -> Outcome {
        match result {
            Ok(outcome) => *outcome,
            Err(Failed(problem)) => Outcome::of_problem(problem.code),
        }
    }
}

/// The reports that came in over the endpoints of this node.
#[derive(Debug, Default)]
pub(crate) struct ReportCounts([[AtomicU64; Outcome::ALL.len()]; Way::ALL.len()]);

impl ReportCounts {
    pub(crate) fn count(&self, way: Way, outcome: Outcome) {
        self.0[way as usize][outcome as usize].fetch_add(1, Relaxed);
    }

    /// Way, outcome and number of the reports of this node, those of its workers included.
    pub(crate) fn all(
        &self,
        workers: ProgressCounts,
    ) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let ProgressCounts { accepted, late, outdated, invalid } = workers;
        let workers = [
            (Outcome::Accepted, accepted),
            (Outcome::Late, late),
            (Outcome::OutdatedToken, outdated),
            (Outcome::Invalid, invalid),
        ];
        let workers = workers.into_iter().map(|(outcome, count)| ("worker", outcome.as_str(), count));
        let others = Way::ALL.into_iter().flat_map(move |way| {
            let count = move |outcome: Outcome| self.0[way as usize][outcome as usize].load(Relaxed);
            Outcome::ALL.into_iter().map(move |outcome| (way.as_str(), outcome.as_str(), count(outcome)))
        });
        workers.chain(others)
    }
}

/// The attempt that a report is about.
#[derive(Debug, Clone)]
pub(crate) struct Reporting {
    pub(crate) namespace: Namespace,
    pub(crate) run: RunId,
    pub(crate) token: Token,
}

impl Endpoints {
    /// The attempt that a caller means: that of its key, or the one that it names.
    pub(crate) async fn attempt_named(
        &self,
        key: Option<AttemptOf>,
        run: Option<RunId>,
        token: Option<Token>,
    ) -> Result<Reporting, Failed> {
        let Some(run) = run.or(key.map(|key| key.run)) else {
            let message = "is missing; write the id of the run";
            return Err(Failed(Problem::new(Code::Invalid, message).about("run")));
        };
        let token = keyed(key, run, token)?;
        let found = self.find_anywhere(run).await?;
        let token = token.unwrap_or(found.token);
        Ok(Reporting { namespace: found.namespace.clone(), run, token })
    }

    /// Keeps a report. `durable` means that the answer comes when it is stored.
    pub(crate) async fn note(
        &self,
        attempt: Reporting,
        progress: Progress,
        durable: bool,
    ) -> Result<Outcome, Failed> {
        let Reporting { namespace, run, token } = attempt;
        let command = Command::Progress { namespace, run, token, progress, durable };
        match self.handle.command(command).await? {
            Answer::Noted => Ok(Outcome::Accepted),
            Answer::Late => Ok(Outcome::Late),
            other => Err(unexpected(&other)),
        }
    }

    /// A run of any namespace.
    async fn find_anywhere(&self, id: RunId) -> Result<Arc<Run>, Failed> {
        // Runs are listed newest first: this one is the first after the next id.
        let after = RunId(id.0.saturating_add(1));
        let found = self.handle.reads().runs(&RunFilter::default(), Some(after), 1).await?;
        let found = found.into_iter().find(|run| run.id == id);
        found.ok_or_else(|| Failed(Refusal::NoSuchRun(id).into()))
    }
}

/// The token of the attempt: that of the key if there is one. The key must be that of this attempt.
pub(crate) fn keyed(
    key: Option<AttemptOf>,
    run: RunId,
    token: Option<Token>,
) -> Result<Option<Token>, Failed> {
    match key {
        Some(key) if key.run == run && token.is_none_or(|token| token == key.token) => Ok(Some(key.token)),
        Some(_) => Err(Failed(Refused::WrongKey.into())),
        None => Ok(token),
    }
}
