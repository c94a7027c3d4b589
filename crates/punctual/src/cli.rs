//! The command line: `punctual noun verb`.
//!
//! One file a noun. A verb asks the server through `client`, and prints data on stdout; everything else goes to
//! stderr. What went wrong becomes one sentence, a hint and an exit code.

pub(crate) mod failure;
pub(crate) mod output;
pub(crate) mod time;
mod dev;
mod job;
mod run;
mod dlq;
mod node;
mod verify;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use punctual_client::Client;
use punctual_core::name::Namespace;

use failure::Failure;
use output::Output;

const EXAMPLES: &str = "\
Examples:
  punctual dev                               start a node on this machine
  punctual job apply hello.yaml              create or change the jobs of a file
  punctual run list --job hello              what became of a job
  punctual run submit --shell 'echo hi'      run something once, now

Exit codes:
  0 done   1 failed   2 wrong usage   3 not found   4 refused   5 the server cannot be reached";

/// Starts work at the right moment, follows it to its end, and keeps the record.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, after_help = EXAMPLES, max_term_width = 110, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// The server to ask
    #[arg(
        long,
        global = true,
        env = "PUNCTUAL_SERVER",
        default_value = "http://127.0.0.1:7400",
        value_name = "URL"
    )]
    server: String,
    /// The token to show it
    #[arg(long, global = true, env = "PUNCTUAL_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The namespace of the jobs and runs named
    #[arg(short, long, global = true, env = "PUNCTUAL_NAMESPACE", default_value = "default")]
    namespace: Namespace,
    /// How to print what was found
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
}

#[derive(Debug, Subcommand)]
enum Noun {
    /// Start a node on this machine: it schedules, serves and works
    Dev(dev::Dev),
    /// Jobs: what someone asked for
    #[command(subcommand)]
    Job(job::Verb),
    /// Runs: what became of it
    #[command(subcommand)]
    Run(run::Verb),
    /// Dead letters: runs that used up their attempts and wait for someone to decide
    #[command(subcommand)]
    Dlq(dlq::Verb),
    /// Nodes and workers
    #[command(subcommand)]
    Node(node::Verb),
    /// Check that the promises held, over an exported history
    Verify(verify::Verify),
    /// Measure this machine with Punctual on it
    #[command(subcommand)]
    Bench(crate::bench::Verb),
    /// Print the version
    Version,
}

pub(crate) fn main() -> ExitCode {
    // clap prints its own complaints, with exit code 2.
    let cli = Cli::parse();
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn start(cli: Cli) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::io)?;
    let done = runtime.block_on(cli.run());
    // A blocking read that nobody waits for any more must not hold up the end.
    runtime.shutdown_background();
    done
}

impl Cli {
    async fn run(self) -> Result<(), Failure> {
        let Cli { global, noun } = self;
        match noun {
            Noun::Dev(dev) => dev.run().await,
            Noun::Job(verb) => verb.run(&global.session()?).await,
            Noun::Run(verb) => verb.run(&global.session()?).await,
            Noun::Dlq(verb) => verb.run(&global.session()?).await,
            Noun::Node(verb) => verb.run(&global.session()?).await,
            Noun::Verify(verify) => verify.run(&global.session()?).await,
            Noun::Bench(verb) => verb.run(Output::new(global.output)).await,
            Noun::Version => output::print(concat!("punctual ", env!("CARGO_PKG_VERSION"))),
        }
    }
}

/// What every verb needs: whom to ask, about which namespace, and how to print.
#[derive(Debug)]
struct Session {
    client: Client,
    namespace: Namespace,
    output: Output,
}

impl Global {
    fn session(self) -> Result<Session, Failure> {
        Ok(Session {
            client: Client::new(&self.server, self.token)?,
            namespace: self.namespace,
            output: Output::new(self.output),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_shows_an_example() {
        for noun in Cli::command().get_subcommands() {
            for verb in
                noun.get_subcommands().chain(std::iter::once(noun).filter(|noun| !noun.has_subcommands()))
            {
                let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
                let plain = ["version", "help"].contains(&verb.get_name());
                assert!(
                    plain || help.contains("punctual "),
                    "`{} {}` has no example",
                    noun.get_name(),
                    verb.get_name()
                );
            }
        }
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
        check_usage(&["job", "run", "x", "--at", "2026-12-01T08:00:00Z", "--delay", "5s"], false);
        check_usage(&["job", "run", "x", "--params", "{}"], true);
        check_usage(&["job", "run", "x", "--params", "[]"], false);
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
    }
}
