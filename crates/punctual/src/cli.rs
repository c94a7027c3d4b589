//! The command line: `punctual noun verb`.
//!
//! One file per noun. A verb asks the server through `client` and prints data on stdout; everything else goes
//! to stderr. An error becomes one sentence, a hint and an exit code.

pub(crate) mod confirm;
pub(crate) mod failure;
pub(crate) mod output;
pub(crate) mod paging;
mod sources;
mod table;
pub(crate) mod progress;
pub(crate) mod time;
mod secret_file;
mod serving;
mod welcome;
pub(crate) mod dev;
mod server;
mod worker;
mod explain;
mod job;
mod calendar;
mod descriptor;
mod run;
mod logs;
mod plain;
mod dlq;
mod command;
mod incident;
mod alert;
mod queue;
mod lock;
mod ping;
mod disque;
mod node;
mod token;
mod verify;
mod backup;
mod doctor;
mod event;
mod hold;
mod examples;
mod config;
mod completions;
mod man;
mod tls;
mod version;
mod why;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use punctual_client::Client;
use punctual_core::name::Namespace;

use examples::{
    BENCH_EXAMPLES, CALENDAR_EXAMPLES, CONFIG_EXAMPLES, DLQ_EXAMPLES, EXAMPLES, JOB_EXAMPLES, LOCK_EXAMPLES,
    NODE_EXAMPLES, PING_EXAMPLES, QUEUE_EXAMPLES, RUN_EXAMPLES, TOKEN_EXAMPLES,
};
use failure::Failure;
pub(crate) use output::Format;
use output::{Colour, Output};

/// The default address of `punctual dev`.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:7400";

/// A task scheduler: starts jobs on time, retries failed runs, and records what happened.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, after_help = EXAMPLES, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    noun: Option<Noun>,
}

#[derive(Clone, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// The address of the server; several, separated by commas, are tried in turn
    #[arg(
        long,
        global = true,
        env = "PUNCTUAL_SERVER",
        default_value = DEFAULT_SERVER,
        value_name = "URL"
    )]
    server: String,
    /// The token for the server
    #[arg(long, global = true, env = "PUNCTUAL_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file of mode 0600 with the token; it overrides --token
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file of authorities to trust, besides those of the system
    #[arg(long, global = true, env = "PUNCTUAL_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The namespace of the jobs, runs and queues
    #[arg(short, long, global = true, env = "PUNCTUAL_NAMESPACE", default_value = "default")]
    namespace: Namespace,
    /// The format of the output
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,
    /// When to use colours; auto means on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    color: Colour,
}

/// Hides the token, because debug output ends up in logs.
impl std::fmt::Debug for Global {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Global").field("server", &self.server).finish_non_exhaustive()
    }
}

#[derive(Debug, Subcommand)]
enum Noun {
    /// Start a node on this machine: it schedules, serves and works
    Dev(dev::Dev),
    /// Start a server node: it needs tokens, and TLS beyond this machine
    Server(Box<server::Server>),
    /// Start a worker: it executes the attempts that nodes assign to it
    Worker(worker::Worker),
    /// Jobs: schedules and their tasks
    #[command(subcommand, after_help = JOB_EXAMPLES)]
    Job(job::Verb),
    /// Calendars: the days on which jobs may fire
    #[command(subcommand, after_help = CALENDAR_EXAMPLES)]
    Calendar(calendar::Verb),
    /// Descriptors: the schemas of gRPC services that tasks call
    #[command(subcommand, after_help = "Example:\n  punctual descriptor apply orders orders.binpb")]
    Descriptor(descriptor::Verb),
    /// Events: they start the jobs that listen to them
    #[command(subcommand, after_help = "Example:\n  punctual event send order-paid --key order-7")]
    Event(event::Verb),
    /// Hold a namespace or everything: nothing in it starts until it is released
    Hold(hold::Order),
    /// Release what is on hold
    Release(hold::Release),
    /// Runs: the occurrences of jobs
    #[command(subcommand, after_help = RUN_EXAMPLES)]
    Run(run::Verb),
    /// Dead letters: runs that used up their attempts, to be replayed or discarded
    #[command(subcommand, after_help = DLQ_EXAMPLES)]
    Dlq(dlq::Verb),
    /// Incidents: alerts that are open, or ended in the last week
    #[command(subcommand, after_help = "Example:\n  punctual incident list")]
    Incident(incident::Verb),
    /// Alerts: the channels that notifications go to
    #[command(subcommand, after_help = "Example:\n  punctual alert test ops")]
    Alert(alert::Verb),
    /// Queues: messages that consumers take and acknowledge
    #[command(subcommand, after_help = QUEUE_EXAMPLES)]
    Queue(queue::Verb),
    /// Run a command while holding a lock; list, show and release locks
    #[command(after_help = LOCK_EXAMPLES)]
    Lock(lock::OfLock),
    /// Report the run of a program that Punctual does not start, such as a line of a crontab
    #[command(after_help = PING_EXAMPLES)]
    Ping(ping::OfPing),
    /// Nodes and workers
    #[command(subcommand, after_help = NODE_EXAMPLES)]
    Node(node::Verb),
    /// Tokens: who may use the server
    #[command(subcommand, after_help = TOKEN_EXAMPLES)]
    Token(token::Verb),
    /// Check an exported history against the promises
    Verify(verify::Verify),
    /// Copy the store of a running or stopped node
    Backup(backup::Backup),
    /// Make a store from a backup
    Restore(backup::Restore),
    /// Measure the speed of Punctual on this machine
    #[command(subcommand, after_help = BENCH_EXAMPLES)]
    Bench(crate::bench::Verb),
    /// Check this machine and the server, with hints
    Doctor(doctor::Doctor),
    /// The settings file of a node
    #[command(subcommand, after_help = CONFIG_EXAMPLES)]
    Config(config::Verb),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Print or write manual pages
    Man(man::Man),
    /// Print the failpoints of a debug build
    #[command(hide = true, after_help = "Example:\n  punctual failpoints")]
    Failpoints,
    /// Print the version
    #[command(after_help = "Examples:\n  punctual version\n  punctual version --verbose")]
    Version(version::Version),
}

pub(crate) fn main() -> ExitCode {
    if let Some(name) = disque::Name::of(std::env::args_os().next().as_ref()) {
        return disque::main(name);
    }
    finish(start(parse()))
}

/// An empty environment variable counts as not set.
fn parse() -> Cli {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let command = with_args(Cli::command(), &|arg| {
        if arg.get_env().is_some_and(is_empty) { arg.env(Resettable::Reset) } else { arg }
    });
    let parsed = command.try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    // clap prints its own errors, with exit code 2.
    parsed.unwrap_or_else(|error| complaint(error).exit())
}

/// In an error, clap's usage line lists every option with a value, including those from the environment. If
/// the mistake is on the command line, the error is shown without them.
fn complaint(error: clap::Error) -> clap::Error {
    let plain = with_args(Cli::command(), &|arg| arg.env(Resettable::Reset));
    match plain.try_get_matches() {
        Err(plain) if plain.kind() == error.kind() && error.use_stderr() => plain,
        _ => error,
    }
}

fn with_args(command: clap::Command, change: &dyn Fn(clap::Arg) -> clap::Arg) -> clap::Command {
    command.mut_args(change).mut_subcommands(|verb| with_args(verb, change))
}

fn finish(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn start(cli: Cli) -> Result<(), Failure> {
    on_runtime(cli.run())
}

fn on_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::io)?;
    let done = runtime.block_on(work);
    // A blocking read that is no longer needed must not delay the exit.
    runtime.shutdown_background();
    done
}

impl Cli {
    async fn run(self) -> Result<(), Failure> {
        let Cli { global, noun } = self;
        global.output.check(matches!(
            noun,
            Some(
                Noun::Job(job::Verb::Graph(_)) | Noun::Run(run::Verb::Graph { .. } | run::Verb::Show { .. })
            )
        ))?;
        match noun {
            None => welcome::greet(&global.session()?).await,
            Some(noun) => noun.run(global).await,
        }
    }
}

impl Noun {
    async fn run(self, global: Global) -> Result<(), Failure> {
        match self {
            Noun::Dev(dev) => dev.run(global.color).await,
            Noun::Server(server) => server.run(global.authorities_file()?, global.color).await,
            Noun::Worker(worker) => {
                let (token, ca) = (global.token()?, global.authorities_file()?);
                worker.run(&global.server, token, ca, global.color).await
            }
            Noun::Job(verb) => verb.run(&global.session()?).await,
            Noun::Calendar(verb) => verb.run(&global.session()?).await,
            Noun::Descriptor(verb) => verb.run(&global.session()?).await,
            Noun::Event(verb) => verb.run(&global.session()?).await,
            Noun::Hold(order) => order.run(&global.session()?).await,
            Noun::Release(release) => release.run(&global.session()?).await,
            Noun::Run(verb) => verb.run(&global.session()?).await,
            Noun::Dlq(verb) => verb.run(&global.session()?).await,
            Noun::Incident(verb) => verb.run(&global.session()?).await,
            Noun::Alert(verb) => verb.run(&global.session()?).await,
            Noun::Queue(verb) => verb.run(&global.session()?).await,
            Noun::Lock(lock) => lock.run(&global.session()?).await,
            Noun::Ping(ping) => ping.run(&global.session()?).await,
            Noun::Node(verb) => verb.run(&global.session()?).await,
            Noun::Token(verb) => verb.run(&global.session()?).await,
            Noun::Verify(verify) => verify.run(&global.session()?).await,
            Noun::Backup(backup) => backup.run().await,
            Noun::Restore(restore) => restore.run().await,
            Noun::Bench(verb) => verb.run(Output::new(global.output, global.color)).await,
            Noun::Doctor(doctor) => doctor.run(&global.session()?).await,
            Noun::Config(verb) => verb.run(),
            Noun::Completions(completions) => completions.run(Cli::command()),
            Noun::Man(man) => man.run(Cli::command()),
            Noun::Failpoints => version::failpoints(),
            Noun::Version(version) => version.run(),
        }
    }
}

/// What every verb needs: the server, the namespace and the output format.
#[derive(Debug)]
struct Session {
    client: Client,
    namespace: Namespace,
    output: Output,
}

impl Global {
    fn token(&self) -> Result<Option<String>, Failure> {
        match &self.token_file {
            Some(file) => secret_file::read(file).map(Some),
            None => Ok(self.token.clone()),
        }
    }

    /// The file of authorities, after checking that it can be read: a long-running process reads it again
    /// when it changes.
    fn authorities_file(&self) -> Result<Option<PathBuf>, Failure> {
        self.authorities()?;
        Ok(self.ca.clone())
    }

    /// The authorities to trust besides those of the system.
    fn authorities(&self) -> Result<Option<Vec<u8>>, Failure> {
        self.ca.as_deref().map(secret_file::read_public).transpose()
    }

    fn session(self) -> Result<Session, Failure> {
        let (token, authorities) = (self.token()?, self.authorities()?);
        Ok(Session {
            client: Client::trusting(&self.server, token, authorities.as_deref())?,
            namespace: self.namespace,
            output: Output::new(self.output, self.color),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    /// Every command with its whole name, the nouns too.
    fn commands(command: &clap::Command, name: &str) -> Vec<(String, clap::Command)> {
        let own = std::iter::once((name.to_owned(), command.clone()));
        let below = command.get_subcommands().filter(|verb| verb.get_name() != "help");
        own.chain(below.flat_map(|verb| commands(verb, &format!("{name} {}", verb.get_name())))).collect()
    }

    #[test]
    fn the_help_of_every_command_says_what_it_does_and_shows_an_example() {
        let commands = commands(&Cli::command(), "punctual");
        assert!(commands.len() > 30, "{}", commands.len());
        for (name, mut command) in commands {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty(), "`{name}` does not say what it does");
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example:\n") || help.contains("Examples:\n"), "`{name}` has no examples");
            let shown = help.rsplit("Example").next().unwrap_or_default();
            assert!(shown.contains(&name), "the example of `{name}` shows another command: {shown}");
            assert!(
                help.lines().all(|line| line.chars().count() <= 110),
                "`{name}`: a line is too long:\n{help}"
            );
        }
    }

    #[test]
    fn the_help_lists_the_exit_codes() {
        let help = Cli::command().render_long_help().to_string();
        for code in ["0 done", "1 failed", "2 wrong usage", "3 not found", "4 refused", "5 the server"] {
            assert!(help.contains(code), "{code}");
        }
    }

    #[test]
    fn a_slip_is_met_with_what_may_have_been_meant() {
        let slip = |words: [&str; 3]| Cli::try_parse_from(words).unwrap_err().to_string();
        assert!(slip(["punctual", "jobs", "list"]).contains("'job'"));
        assert!(slip(["punctual", "job", "aply"]).contains("'apply'"));
    }

    #[track_caller]
    fn check_usage(words: &[&str], ok: bool) {
        let parsed = Cli::try_parse_from(std::iter::once("punctual").chain(words.iter().copied()));
        assert_eq!(parsed.is_ok(), ok, "{words:?}: {parsed:?}");
    }

    #[test]
    fn options_stand_before_or_after_the_verb() {
        check_usage(&["-o", "json", "job", "list"], true);
        check_usage(&["job", "list", "-o", "json", "-n", "payments/clearing"], true);
        check_usage(&["job", "list", "-o", "xml"], false);
        check_usage(&["job", "list", "-n", "Payments"], false);
        check_usage(&["job", "apply", "a.yaml"], true);
        check_usage(&["job", "apply", "-f", "a.yaml", "-f", "b.yaml"], true);
        check_usage(&["job", "apply", "-f", "-"], true);
        check_usage(&["job", "apply"], false);
        check_usage(&["job", "apply", "jobs", "--prune", "--yes"], true);
        check_usage(&["job", "apply", "jobs", "--yes"], false);
        check_usage(&["job", "diff"], false);
        check_usage(&["job", "diff", "jobs", "--prune"], true);
        check_usage(&["job", "revisions", "x", "--diff", "3", "--from", "1"], true);
        check_usage(&["job", "revisions", "x", "--from", "1"], false);
        check_usage(&["job", "graph", "x.yaml", "--job", "x", "-o", "mermaid"], true);
        check_usage(&["job", "graph"], false);
        check_usage(&["job", "rollback", "x"], false);
        check_usage(&["dlq", "replay"], false);
        check_usage(&["dlq", "replay", "17", "18"], true);
        check_usage(&["dlq", "replay", "--all"], false);
        check_usage(&["dlq", "replay", "--all", "--job", "x"], true);
        check_usage(&["dlq", "discard", "17", "--all", "--job", "x"], false);
        check_usage(&["queue", "add", "mail"], true);
        check_usage(&["queue", "add", "mail", "--body", "a", "--lines"], false);
        check_usage(&["queue", "add", "mail", "--priority", "10"], false);
        check_usage(&["queue", "get", "mail", "--count", "100", "--wait", "10s"], true);
        check_usage(&["queue", "get", "mail", "--count", "0"], false);
        check_usage(&["queue", "ack"], false);
        check_usage(&["queue", "ack", "17"], false);
        check_usage(&["queue", "nack", "D-0a1b2c3d-AAAAAAAAAAAAAAAAAAAAAAAA-05a1", "--delay", "5s"], true);
        check_usage(&["queue", "pause", "mail", "--in", "--out"], false);
        check_usage(&["queue", "work", "mail"], false);
        check_usage(
            &["queue", "work", "mail", "--timeout", "5m", "--slots", "8", "--", "sh", "-c", "x"],
            true,
        );
        check_usage(&["queue", "work", "mail", "--single", "--slots", "8", "--", "x"], false);
        check_usage(&["lock", "list"], true);
        check_usage(&["lock", "list", "--", "x"], false);
        check_usage(&["lock", "backup", "--wait", "0s", "--ttl", "1m", "--", "sh", "-c", "x"], true);
        check_usage(&["lock", "backup"], false);
        check_usage(&["ping", "backup", "--", "sh", "-c", "x"], true);
        check_usage(&["ping", "backup", "--fail", "--run", "17", "--message", "full"], true);
        check_usage(&["ping", "backup", "--fail", "--", "x"], false);
        check_usage(&["ping", "backup", "--start", "--fail"], false);
        check_usage(&["ping"], false);
        check_usage(&["run", "list", "--trigger", "manual", "--key", "k", "--attempts"], true);
        check_usage(&["job", "run", "x", "--at", "2026-12-01T08:00:00Z", "--delay", "5s"], false);
        check_usage(&["job", "run", "x", "--params", "{}"], true);
        check_usage(&["job", "run", "x", "--params", "[]"], false);
        check_usage(&["calendar", "apply", "work.yaml"], true);
        check_usage(&["descriptor", "apply", "orders", "orders.binpb"], true);
        check_usage(&["descriptor", "apply", "orders"], false);
        check_usage(&["calendar", "days", "work", "--from", "2026-10-01", "--to", "2026-10-31"], true);
        check_usage(&["calendar", "days", "work", "--from", "tomorrow"], false);
        check_usage(&["calendar", "days", "work", "--from", "12-25"], false);
        check_usage(&["run", "show", "17", "--events"], true);
        check_usage(&["run", "show", "seventeen"], false);
        check_usage(&["run", "list", "--since", "1h"], true);
        check_usage(&["run", "list", "--since", "2026-12-01T08:00:00Z"], true);
        check_usage(&["run", "list", "--since", "yesterday"], false);
        check_usage(&["run", "submit", "--shell", "a", "--noop"], false);
        check_usage(&["run", "submit", "--", "ls", "-l"], true);
        check_usage(&["run", "submit"], false);
        check_usage(&["dev", "--http", "127.0.0.1:0", "--data", "/tmp/x"], true);
        check_usage(&["dev", "--http", "7400"], false);
        check_usage(&["server", "--store", "sqlite:/tmp/x", "--http", "0.0.0.0:7400", "--insecure"], true);
        check_usage(&["server", "--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a"], true);
        check_usage(&["token", "add", "ci", "--role", "reader", "--expires", "90d"], true);
        check_usage(&["token", "add", "ci"], false);
        check_usage(&["token", "add", "ci", "--role", "root"], false);
        check_usage(&["token", "list", "--token-file", "t", "--ca", "ca.pem"], true);
        check_usage(&["worker", "--server", "http://a:1,http://b:1", "--label", "disk=ssd"], true);
        check_usage(&["worker", "--allow", "process,http", "--slots", "4", "--name", "a-1"], true);
        check_usage(&["worker", "--allow", "teleport"], false);
        check_usage(&["worker", "--slots", "0"], false);
        check_usage(&["worker", "--label", "disk"], false);
        check_usage(&["worker", "--name", "a b"], false);
        check_usage(&[], true);
        check_usage(&["--color", "never", "run", "list"], true);
        check_usage(&["run", "list", "--color", "sometimes"], false);
        check_usage(&["doctor", "--data", "/tmp/x", "-o", "json"], true);
        check_usage(&["doctor", "--http", "7400"], false);
        check_usage(&["completions", "bash"], true);
        check_usage(&["completions", "cmd"], false);
    }
}
