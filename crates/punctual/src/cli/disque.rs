//! Started through a link named `disque` or `disque-server`: accepts the command lines of Disque.
//!
//! They are translated into `punctual queue` and `punctual dev` or `server`. The client uses REST, as
//! `punctual queue` does.

mod addjob;
mod config;
mod getjob;
mod locate;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};
use punctual_client::Error;
use punctual_core::queue::QueueName;
use punctual_wire::rest::{Code, Problem};

use super::failure::{Exit, Failure};
use super::output::{Output, print};
use super::queue::{Ids, Work, ack, delete, describe_queue, show};
use super::{Format, Global, Session};

const EXAMPLES: &str = "\
Examples:
  echo task | disque addjob mail 5000        put a job into a queue, and print its id
  disque getjob from mail                    take one out
  disque ackjob D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1
  disque worker mail -t 60 -- ./send         run a command for each

`punctual queue --help` has more.";

/// The Disque name that the program was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Disque,
    Server,
}

impl Name {
    /// `None` means that it was started as `punctual`.
    pub(super) fn of(called: Option<&OsString>) -> Option<Name> {
        match Path::new(called?).file_name()?.to_str()? {
            "disque" => Some(Name::Disque),
            "disque-server" => Some(Name::Server),
            _ => None,
        }
    }
}

/// The queues of a Punctual server, in the words of Disque.
#[derive(Debug, Parser)]
#[command(name = "disque", version, after_help = EXAMPLES, max_term_width = 110, disable_help_flag = true)]
pub(super) struct Disque {
    /// The host of the Redis-protocol endpoint, which names the REST address [default: 127.0.0.1]
    #[arg(short = 'h', value_name = "HOST")]
    host: Option<String>,
    /// The port of the Redis-protocol endpoint [default: 7711]
    #[arg(short = 'p', value_name = "PORT")]
    port: Option<u16>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    word: Word,
}

#[derive(Debug, Subcommand)]
enum Word {
    /// Show the state of a queue; a queue is created by its first job
    Queue { queue: QueueName },
    /// Add a job, its body from stdin, and print its id
    Addjob(addjob::Addjob),
    /// Take jobs: [nohang] [timeout MS] [count N] from QUEUE…
    Getjob(getjob::Getjob),
    /// Show a job
    Show { id: String },
    /// Acknowledge jobs
    Ackjob(Ids),
    /// Delete jobs
    Deljob(Ids),
    /// Run a command for each job; without one, print its body
    Worker(Worker),
    /// Show the job that was added with `asynckey KEY`, as JSON
    Client { key: String, id: String },
}

#[derive(Debug, Args)]
struct Worker {
    queue: QueueName,
    /// Seconds that a command may take
    #[arg(short, long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Run one command at a time, over all workers of this queue with this flag
    #[arg(long)]
    single_process: bool,
    /// End when the queue is empty
    #[arg(long)]
    drain: bool,
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The main function of `disque` and `disque-server`.
pub(super) fn main(name: Name) -> ExitCode {
    match name {
        Name::Disque => super::finish(super::on_runtime(Disque::parse().run())),
        Name::Server => match config::words(&std::env::args().skip(1).collect::<Vec<_>>()) {
            Ok(Some(words)) => super::finish(super::start(super::Cli::parse_from(words))),
            Ok(None) => ExitCode::SUCCESS,
            Err(failure) => failure.report(),
        },
    }
}

impl Disque {
    async fn run(self) -> Result<(), Failure> {
        let colour = self.global.color;
        let mut global = self.global;
        if self.host.is_some() || self.port.is_some() {
            let host = self.host.as_deref().unwrap_or("127.0.0.1");
            let (port, token) = (self.port.unwrap_or(config::PORT), global.token()?);
            global.server = locate::rest_of(host, port, token.as_deref()).await?;
        }
        global.output.check(false)?;
        let mut session = global.session()?;
        match self.word {
            Word::Queue { queue } => inspect(&session, &queue).await,
            Word::Addjob(addjob) => addjob.run(&session).await,
            Word::Getjob(getjob) => getjob.run(&session).await,
            Word::Show { id } => show(&session, &id).await,
            Word::Ackjob(ids) => ack(&session, &ids).await,
            Word::Deljob(ids) => delete(&session, &ids).await,
            Word::Worker(worker) => worker.work().run(&session).await,
            Word::Client { key, id } => {
                let message = session.client.message(&session.namespace, &id).await?;
                if message.key.as_deref() != Some(&key) {
                    let problem =
                        Problem::new(Code::NoSuchMessage, format!("no job {id} under the key `{key}`"));
                    return Err(Error::Problem(Box::new(problem)).into());
                }
                if session.output.format() == Format::Table {
                    session.output = Output::new(Format::Json, colour);
                }
                session.output.show(&message, |_| String::new())
            }
        }
    }
}

async fn inspect(session: &Session, queue: &QueueName) -> Result<(), Failure> {
    match session.client.queue(&session.namespace, queue.as_str()).await {
        Ok(queue) => session.output.show(&queue, |_| describe_queue(&queue)),
        Err(error) if error.problem().is_some_and(|problem| problem.code == Code::NoSuchQueue) => print("OK"),
        Err(error) => Err(error.into()),
    }
}

impl Worker {
    fn work(self) -> Work {
        let command = if self.command.is_empty() { vec!["cat".to_owned()] } else { self.command };
        Work {
            queue: self.queue,
            timeout: self.timeout.map(Duration::from_secs),
            slots: 1,
            single: self.single_process,
            nack_delay: Duration::from_secs(1),
            drain: self.drain,
            command,
        }
    }
}

/// An argument that is not allowed there.
fn wrong(message: String) -> Failure {
    Failure::new(Exit::Usage, message).hint("`disque --help` shows the commands")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_words_are_sound() {
        Disque::command().debug_assert();
    }

    #[test]
    fn the_name_decides_which_words_are_meant() {
        let of = |called: &str| Name::of(Some(&OsString::from(called)));
        assert_eq!(of("/usr/local/bin/disque"), Some(Name::Disque));
        assert_eq!(of("disque-server"), Some(Name::Server));
        assert_eq!(of("./punctual"), None);
        assert_eq!(Name::of(None), None);
    }

    #[test]
    fn old_notes_can_be_read() {
        for words in [
            "disque queue mail",
            "disque -h localhost -p 7712 queue mail",
            "disque addjob mail 5000",
            "disque addjob mail 5000 replicate 3 nocache async asynckey k",
            "disque addjob mail 5000 replicate nocache",
            "disque show D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1",
            "disque getjob from mail",
            "disque getjob nohang count 3 from a b",
            "disque ackjob D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1",
            "disque deljob D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1",
            "disque worker mail -t 60 --single-process",
            "disque worker mail -t 60 -- ./send -x",
            "disque client k D-0000000c-AAMAAAAAAAAAAAAAAAAAAAAA-05a1",
        ] {
            let parsed = Disque::try_parse_from(words.split(' '));
            assert!(parsed.is_ok(), "{words}: {parsed:?}");
        }
    }

    #[test]
    fn a_worker_without_a_command_prints_what_it_takes() {
        let words = "disque worker mail -t 60 --single-process".split(' ');
        let Word::Worker(worker) = Disque::try_parse_from(words).unwrap().word else { panic!("no worker") };
        let work = worker.work();
        assert_eq!((work.timeout, work.single), (Some(Duration::from_secs(60)), true));
        assert_eq!(work.command, ["cat"]);
    }
}
