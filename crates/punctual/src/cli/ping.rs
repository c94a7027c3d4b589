//! `punctual ping`: reports the runs of a program outside Punctual, or runs a command and reports its start and its end.
//!
//! A command runs whether or not the server can be reached, because a report must never be the reason why a backup is
//! missing.

mod tail;

use std::env;
use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use punctual_client::{Error, Ping};
use punctual_core::ids::RunId;
use punctual_core::name::Name;
use punctual_wire::rest::{PingKey, Pinged};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Session;
use super::command::{End, GRACE, Printing, Running};
use super::failure::{Exit, Failure};
use super::lock::{STOPPED, stopped};
use super::output::Format;
use super::serving::asked_to_stop;
use tail::Tail;

const KEY_VARIABLE: &str = "PUNCTUAL_PING_KEY";
/// How long a command waits for the report of its start.
const START_MAX: Duration = Duration::from_secs(10);
/// The pauses between the tries to report the end of a command.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25)];

#[derive(Debug, Args)]
pub(crate) struct OfPing {
    /// The job that is the ping
    name: Name,
    /// The key of the ping. By default the server is asked for it, which needs a token that may edit the job
    #[arg(long, env = KEY_VARIABLE, hide_env_values = true)]
    key: Option<String>,
    /// Report that the program has started, and print the run
    #[arg(long, group = "what")]
    start: bool,
    /// Report that the program has failed. Without --start and --fail, it has succeeded
    #[arg(long, group = "what")]
    fail: bool,
    /// Print what a line of a crontab has to call, with the key
    #[arg(long, group = "what")]
    show: bool,
    /// The run that has ended. By default the newest one that has started
    #[arg(long, value_name = "ID", conflicts_with_all = ["start", "show"])]
    run: Option<RunId>,
    /// The output of the program, or its error with --fail
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["start", "show"])]
    message: Option<String>,
    /// A command and its arguments: its start, its end and its last output are reported
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["what", "run", "message"])]
    command: Vec<String>,
}

impl OfPing {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        if !self.command.is_empty() {
            return self.run_command(session).await;
        }
        if self.show {
            let key = session.client.ping_key(&session.namespace, &self.name).await?;
            return session.output.show(&key, |_| addresses(session.client.server(), &key));
        }
        let (run, text) = (self.run, self.message.as_deref().unwrap_or_default());
        let ping = match (self.start, self.fail) {
            (true, _) => Ping::Started,
            (_, true) => Ping::Failed { run, exit_code: None, error: text },
            _ => Ping::Succeeded { run, output: text },
        };
        let key = self.key(session).await?;
        let pinged = self.report(session, &key, ping).await?;
        // Cron mails whatever is printed, so a report that went well prints nothing.
        if self.start || session.output.format() != Format::Table {
            session.output.show(&pinged, |_| pinged.run.to_string())?;
        }
        Ok(())
    }

    async fn key(&self, session: &Session) -> Result<String, Error> {
        match &self.key {
            Some(key) => Ok(key.clone()),
            None => Ok(session.client.ping_key(&session.namespace, &self.name).await?.key),
        }
    }

    async fn report(&self, session: &Session, key: &str, ping: Ping<'_>) -> Result<Pinged, Error> {
        session.client.ping(&session.namespace, &self.name, key, ping).await
    }

    async fn run_command(&self, session: &Session) -> Result<(), Failure> {
        let (stop_in, mut stop) = watch::channel(false);
        let signals = tokio::spawn(asked_to_stop(stop_in));
        let run = self.report_start(session).await;
        let (end, printed) = self.execute(&mut stop).await;
        let failed = match &end {
            End::Done => None,
            End::Failed { code, why } => Some((*code, with_last_lines(why, &printed))),
        };
        let ping = match &failed {
            None => Ping::Succeeded { run, output: &printed },
            Some((code, error)) => Ping::Failed { run, exit_code: Some((*code).into()), error },
        };
        self.report_end(session, ping, &mut stop).await;
        signals.abort();
        match failed {
            None => Ok(()),
            Some((code, _)) => Err(Failure::silent(Exit::OfCommand(code))),
        }
    }

    /// Reports the start of the command. `None` means that the server did not take the report.
    async fn report_start(&self, session: &Session) -> Option<RunId> {
        let report = async {
            let key = self.key(session).await?;
            self.report(session, &key, Ping::Started).await
        };
        match timeout(START_MAX, report).await {
            Ok(Ok(pinged)) => Some(pinged.run.0),
            Ok(Err(error)) => {
                eprintln!("warning: the start of the command could not be reported: {error}");
                None
            }
            Err(_) => {
                eprintln!("warning: the start of the command could not be reported: no answer");
                None
            }
        }
    }

    /// Runs the command, and returns its end and the end of its output.
    async fn execute(&self, stop: &mut watch::Receiver<bool>) -> (End, String) {
        let environment: Vec<(OsString, OsString)> =
            env::vars_os().filter(|(name, _)| name != KEY_VARIABLE).collect();
        let started = Running::start(&self.command, &environment, &[], Printing::Piped).await;
        let mut running = match started {
            Ok(running) => running,
            Err(error) => {
                let why = format!("`{}`: {error}", self.command[0]);
                eprintln!("error: {why}");
                return (End::Failed { code: 1, why }, String::new());
            }
        };
        let mut tail = Tail::of(running.take_pipes());
        let end = tokio::select! {
            end = running.ended() => Some(end),
            () = stopped(stop) => None,
            () = tail.never_ends() => None,
        };
        let end = match end {
            Some(end) => end,
            None => {
                running.stop(GRACE).await;
                End::Failed { code: STOPPED, why: "stopped by a signal".to_owned() }
            }
        };
        (end, tail.finish().await)
    }

    /// Reports the end of the command. A run that has ended is not changed by a second report.
    async fn report_end(&self, session: &Session, ping: Ping<'_>, stop: &mut watch::Receiver<bool>) {
        let report = async || {
            let key = self.key(session).await?;
            self.report(session, &key, ping).await
        };
        let mut pauses = PAUSES.iter();
        while let Err(error) = report().await {
            let is_final = error.problem().is_some_and(|problem| problem.status < 500);
            match pauses.next().filter(|_| !is_final) {
                Some(pause) => tokio::select! {
                    () = sleep(*pause) => {}
                    () = stopped(stop) => return,
                },
                None => {
                    eprintln!("warning: the end of the command could not be reported: {error}");
                    return;
                }
            }
        }
    }
}

/// Why a command has failed, and what it printed last. The server keeps 4 KiB of it.
fn with_last_lines(why: &str, printed: &str) -> String {
    const LAST_MAX: usize = 3 * 1024;
    let last = punctual_core::cut::keep_end(printed, LAST_MAX);
    if last.is_empty() { why.to_owned() } else { format!("{why}\n{last}") }
}

/// What a line of a crontab calls.
fn addresses(server: &str, PingKey { key, path }: &PingKey) -> String {
    let address = |end: &str| format!("{server}{path}{end}?key={key}");
    format!("success  {}\nstart    {}\nfailure  {}", address(""), address("/start"), address("/fail"))
}
