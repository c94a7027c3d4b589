//! `punctual lock`: runs a command while it holds a lock; lists, shows and releases locks.

use std::env;
use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use punctual_client::{Client, HeldLock, Hold};
use punctual_core::ids::Fence;
use punctual_core::name::Name;
use punctual_core::schedule::format_duration;
use punctual_wire::rest::Lock;
use tokio::sync::watch;

use super::Session;
use super::command::{End, GRACE, Printing, Running};
use super::confirm::confirm;
use super::failure::{Exit, Failure};
use super::output::{Output, text};
use super::paging::{gather, say_if_more};
use super::serving::asked_to_stop;
use super::time::{both, duration};
use super::worker::hostname;
use crate::wiring;

/// The exit code of a command that a signal to this process has stopped, as shells say it of SIGINT.
pub(super) const STOPPED: u8 = 130;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct OfLock {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    under: Option<Under>,
}

#[derive(Debug, Args)]
struct Under {
    /// The name of the lock
    name: Name,
    /// How long the lock is held if this process or its machine dies: 100ms to 1d
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = duration)]
    ttl: Duration,
    /// How long to wait while another owner holds the lock; 0s does not wait [default: no end]
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    wait: Option<Duration>,
    /// The name of the owner that `punctual lock show` shows [default: the machine and the process]
    #[arg(long)]
    owner: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the locks that are held
    #[command(after_help = "Example:\n  punctual lock list -n payments")]
    List {
        /// The largest number of locks to show
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Show who holds a lock, and who waits for it
    #[command(after_help = "Example:\n  punctual lock show nightly-backup")]
    Show { name: Name },
    /// Take a lock from its holder and give it to the next caller. The holder works until its next renewal
    /// fails
    #[command(after_help = "Example:\n  punctual lock release nightly-backup --yes")]
    Release {
        name: Name,
        /// Only if it is held under this fence
        #[arg(long)]
        fence: Option<Fence>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

impl OfLock {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        match (self.verb, self.under) {
            (Some(verb), _) => verb.run(session).await,
            (None, Some(under)) => under.run(session).await,
            (None, None) => Err(Failure::new(Exit::Usage, "a lock and a command are needed")
                .hint("punctual lock nightly-backup -- ./backup.sh")),
        }
    }
}

impl Under {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let owner = self.owner.clone().unwrap_or_else(|| format!("{}:{}", hostname(), std::process::id()));
        let hold = Hold { owner, ttl: self.ttl, wait: self.wait.unwrap_or(Duration::MAX) };
        let (stop_in, mut stop) = watch::channel(false);
        let signals = tokio::spawn(asked_to_stop(stop_in));
        let acquired = tokio::select! {
            acquired = session.client.lock(&session.namespace, &self.name, hold) => acquired?,
            () = stopped(&mut stop) => return Err(Failure::silent(Exit::OfCommand(STOPPED))),
        };
        let done = self.run_while(session, &acquired, &mut stop).await;
        acquired.release().await;
        signals.abort();
        done
    }

    async fn run_while(
        &self,
        session: &Session,
        held: &HeldLock,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        let own: [(&str, OsString); 3] = [
            ("PUNCTUAL_FENCE", held.fence().to_string().into()),
            ("PUNCTUAL_LOCK", self.name.to_string().into()),
            ("PUNCTUAL_NAMESPACE", session.namespace.to_string().into()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.into(), value));
        let environment: Vec<(OsString, OsString)> = env::vars_os().chain(own).collect();
        let mut running = Running::start(&self.command, &environment, &[], Printing::Inherited)
            .await
            .map_err(|error| Failure::new(Exit::Failed, format!("`{}`: {error}", self.command[0])))?;
        tokio::select! {
            end = running.ended() => match end {
                End::Done => Ok(()),
                End::Failed { code, .. } => Err(Failure::silent(Exit::OfCommand(code))),
            },
            () = held.lost() => {
                // A tenth of the time to live is left, see `client::hold`: the next owner must find no command.
                running.stop(GRACE.min(self.ttl / 10)).await;
                let message = format!("lock `{}` was lost, so the command was stopped", self.name);
                Err(Failure::new(Exit::Failed, message))
            }
            () = stopped(stop) => {
                running.stop(GRACE).await;
                Err(Failure::silent(Exit::OfCommand(STOPPED)))
            }
        }
    }
}

/// Returns at the first signal to stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Signals cannot be received, so this way to stop does not exist.
        std::future::pending::<()>().await;
    }
}

impl Verb {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let (client, namespace): (&Client, _) = (&session.client, &session.namespace);
        match self {
            Verb::List { limit } => {
                let read =
                    async |after: Option<String>, size| client.locks(namespace, after.as_deref(), size).await;
                let (locks, more) = gather(limit, read).await?;
                session.output.show(&locks, |output| table(output, &locks))?;
                say_if_more(more);
                Ok(())
            }
            Verb::Show { name } => {
                let lock = client.show_lock(namespace, &name).await?;
                session.output.show(&lock, |output| describe(output, &lock))
            }
            Verb::Release { name, fence, yes } => {
                let fence = match fence {
                    Some(fence) => fence,
                    None => {
                        let lock = client.show_lock(namespace, &name).await?;
                        let question = format!(
                            "Take lock `{name}` from `{}`? Its work goes on until its next renewal fails.",
                            lock.owner
                        );
                        confirm(&question, yes)?;
                        lock.fence.0
                    }
                };
                client.release_lock(namespace, &name, fence).await?;
                eprintln!("lock `{name}` is released");
                Ok(())
            }
        }
    }
}

fn table(output: Output, locks: &[Lock]) -> String {
    let now = wiring::now();
    let mut table = output.table(&["LOCK", "OWNER", "SINCE", "EXPIRES", "FENCE"]);
    for lock in locks {
        table.add_row([
            Cell::new(&lock.name),
            Cell::new(&lock.owner),
            Cell::new(both(lock.since.0, now)),
            Cell::new(both(lock.expires_at.0, now)),
            Cell::new(lock.fence),
        ]);
    }
    text(table)
}

fn describe(output: Output, lock: &Lock) -> String {
    let now = wiring::now();
    let mut table = output.table(&["", ""]);
    table.add_row(["lock", lock.name.as_str()]);
    table.add_row(["owner", &lock.owner]);
    table.add_row(["since", &both(lock.since.0, now)]);
    table.add_row([
        "expires",
        &format!(
            "{}, held for {} without a renewal",
            both(lock.expires_at.0, now),
            format_duration(lock.ttl.0)
        ),
    ]);
    table.add_row(["fence", &lock.fence.to_string()]);
    for (place, waiter) in (1..).zip(lock.waiting.iter().flatten()) {
        table.add_row([
            &format!("waiting {place}"),
            &format!("{} since {}", waiter.owner, both(waiter.since.0, now)),
        ]);
    }
    text(table)
}
