//! Runs a program with its arguments, until the program and its descendants are gone.
//!
//! One task writes the parameters, reads both streams, waits for the end and for a stop. The attempt is over when the
//! program has ended, all its descendants are gone (without a guardian: all processes of its group), and its output is
//! in the log.
//!
//! ```text
//!  launch ──▶ running ──ends by itself──▶ the rest: KILL ──▶ read what is left ──▶ outcome
//!                └──stop──▶ group: TERM ──all gone, or grace over──▶ the rest: KILL ──┘
//! ```

use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{End, Outcome};
use punctual_core::limits::{ERROR_BYTES_MAX, OUTPUT_BYTES_MAX};
use punctual_core::log::Stream;
use punctual_core::retry::Failed;
use punctual_core::task::Process;
use punctual_failpoint::{Point, hit};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::launch::launch;
use super::output::{self, Tail, cut_end};
use super::program::{self, Pipes, Program};
use super::reports::{Destination, Folder};
use super::{Attempt, Ending, Host, grace_is_over, stop_asked};
use crate::driver::Stop;
use crate::log::Transcript;

/// After the program has ended, its last output is still in the pipe. Silence for this long means there is no more, and
/// a background process only holds the pipe open.
const LINGER: Duration = Duration::from_millis(500);
/// The maximum capacity of a pipe on Linux: reading more after the end means another process still writes.
const PIPE_BYTES_MAX: u64 = 1024 * 1024;

pub(super) async fn execute(process: &Process, attempt: Attempt, host: &Host) -> Ending {
    let Attempt { assignment, started_at, stop, .. } = attempt;
    let (run, token) = (assignment.run, assignment.token);
    let transcript = Transcript::new(run, token, Arc::clone(&host.clock), Arc::clone(&host.logs));
    hit(Point::WorkerSpawnBegun);
    let folder = Folder::make(&host.attempts, &assignment);
    let opened = folder.and_then(|folder| Ok((folder.reader()?, folder)));
    let opened = opened.map_err(|error| format!("cannot make the folder of the attempt: {error}"));
    let launched = match opened {
        Ok((reader, folder)) => {
            launch(process, &assignment, &folder, host).await.map(|program| (program, reader, folder))
        }
        Err(message) => Err(message),
    };
    let (program, mut reader, _folder) = match launched {
        Ok(launched) => launched,
        Err(message) => {
            transcript.note(&message).await;
            return Ending { outcome: Outcome::failed(started_at, message), stopped: None };
        }
    };
    hit(Point::WorkerSpawnDone);
    let mut printed = Printed { out: Tail::new(OUTPUT_BYTES_MAX), err: Tail::new(ERROR_BYTES_MAX) };
    let grace = assignment.grace.unwrap_or(host.grace);
    let supervisor = Supervisor { program, stop, grace, transcript: &transcript };
    let to = Destination { assignment: &assignment, reports: &host.reports, transcript: &transcript };
    let (over_in, over) = oneshot::channel();
    let running = async {
        let exit = supervisor.see_through(&assignment.params.0, &mut printed).await;
        // An error means that reading the reports has failed before.
        let _ = over_in.send(());
        exit
    };
    let (exit, heard) = tokio::join!(running, reader.pass_on(&to, over));
    if let Err(error) = heard {
        transcript.note(&format!("reports could not be read: {error}")).await;
    }
    transcript.close().await;
    Ending { stopped: exit.stopped, outcome: exit.into_outcome(printed, started_at) }
}

/// The last bytes of both streams.
struct Printed {
    out: Tail,
    err: Tail,
}

/// How a program ended, and why if it was stopped.
struct Exit {
    end: program::End,
    stopped: Option<Stop>,
}

struct Supervisor<'a> {
    program: Program,
    stop: watch::Receiver<Option<Stop>>,
    grace: Duration,
    transcript: &'a Transcript,
}

impl Supervisor<'_> {
    async fn see_through(mut self, params: &str, printed: &mut Printed) -> Exit {
        let transcript = self.transcript;
        let Pipes { stdin, stdout, stderr } = self.program.pipes();
        let (enough, enough_out) = watch::channel(false);
        let enough_err = enough_out.clone();
        let Printed { out, err } = printed;
        let reading = async {
            let stdout = stdout.map(|pipe| output::read(pipe, Stream::Out, transcript, out, enough_out));
            let stderr = stderr.map(|pipe| output::read(pipe, Stream::Err, transcript, err, enough_err));
            tokio::join!(maybe(stdout), maybe(stderr));
        };
        let feeding = feed(stdin, params);
        tokio::pin!(reading, feeding);
        let (mut is_read, mut is_fed) = (false, false);
        let exit = {
            let ending = self.wait();
            tokio::pin!(ending);
            loop {
                tokio::select! {
                    exit = &mut ending => break exit,
                    () = &mut reading, if !is_read => is_read = true,
                    () = &mut feeding, if !is_fed => is_fed = true,
                }
            }
        };
        if !is_read {
            drain(reading, transcript, &enough).await;
        }
        self.program.leave();
        exit
    }

    /// Waits until the program has ended, by itself or stopped by us, and its descendants are gone.
    async fn wait(&mut self) -> Exit {
        let stop = tokio::select! {
            biased;
            (end, all_gone) = self.program.ended() => {
                if !all_gone {
                    self.transcript.note("a process that it left in the background cannot be killed").await;
                }
                return Exit { end, stopped: None };
            }
            stop = stop_asked(&mut self.stop) => stop,
        };
        Exit { end: self.end(stop).await, stopped: Some(stop) }
    }

    /// Asks the program to end and kills it after the grace period. A slow log does not delay this.
    async fn end(&mut self, stop: Stop) -> program::End {
        self.program.ask_to_end();
        let asked = format!("asked to end: {stop}");
        let killing = kill_in_time(&mut self.program, &mut self.stop, stop, self.grace);
        let ((end, waited), ()) = tokio::join!(killing, self.transcript.note(&asked));
        if let Some(waited) = waited.filter(|_| stop != Stop::Unheard) {
            self.transcript.note(&format!("still there after {:.1} s: killed", waited.as_secs_f32())).await;
        }
        end
    }
}

/// Kills what is left after the grace period. Returns how long it waited if something was left.
async fn kill_in_time(
    program: &mut Program,
    stop: &mut watch::Receiver<Option<Stop>>,
    why: Stop,
    grace: Duration,
) -> (program::End, Option<Duration>) {
    let begun = Instant::now();
    let waited = tokio::select! {
        biased;
        () = program.gone() => None,
        () = grace_is_over(stop, why, grace) => Some(begun.elapsed()),
    };
    // A shutdown looks for the daemons of all attempts at once, later.
    (program.kill(why != Stop::Shutdown).await, waited)
}

impl Exit {
    fn into_outcome(self, printed: Printed, started_at: Timestamp) -> Outcome {
        let exit_code = match self.end {
            program::End::Status(status) => status.code(),
            program::End::Stuck | program::End::Unguarded => None,
        };
        let end = if exit_code == Some(0) && self.stopped.is_none() { End::Succeeded } else { End::Failed };
        let error = match (end, self.stopped) {
            (End::Succeeded, _) => String::new(),
            (_, Some(stop)) => format!("{stop}: {}", self.in_words()),
            (_, None) => match printed.err.into_last_line() {
                Some(line) => format!("{}: {line}", self.in_words()),
                None => self.in_words(),
            },
        };
        Outcome {
            end,
            started_at,
            exit_code,
            output: printed.out.into_text().into(),
            error: cut_end(error, ERROR_BYTES_MAX).into(),
            failed: Failed::Error,
        }
    }

    fn in_words(&self) -> String {
        match self.end {
            program::End::Status(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("killed by signal {signal}{}", name_of(signal)),
                (None, None) => format!("{status}"),
            },
            program::End::Stuck => "it cannot be killed and is still there".to_owned(),
            program::End::Unguarded => "its guardian was killed, and so was it".to_owned(),
        }
    }
}

/// The name of a common signal, in brackets.
fn name_of(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        14 => " (SIGALRM)",
        15 => " (SIGTERM)",
        24 => " (SIGXCPU)",
        31 => " (SIGSYS)",
        _ => "",
    }
}

async fn maybe(reading: Option<impl Future<Output = ()>>) {
    if let Some(reading) = reading {
        reading.await;
    }
}

/// Writes the parameters and closes the pipe. A program need not read them.
async fn feed(stdin: Option<ChildStdin>, params: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(params.as_bytes()).await;
    }
}

/// Reads what an ended program has left in its pipes. A process that inherited them may hold them open for ever.
async fn drain(
    mut reading: Pin<&mut impl Future<Output = ()>>,
    transcript: &Transcript,
    enough: &watch::Sender<bool>,
) {
    let read_at_end = transcript.bytes_read();
    let mut read_before = read_at_end;
    loop {
        tokio::select! {
            () = &mut reading => return,
            () = tokio::time::sleep(LINGER) => {}
        }
        let read = transcript.bytes_read();
        let is_silent = read == read_before && !transcript.is_held_up();
        if is_silent || read - read_at_end > 2 * PIPE_BYTES_MAX {
            break;
        }
        read_before = read;
    }
    enough.send_replace(true);
    reading.await;
    transcript
        .note("a process in the background still holds the output open; it is not read any longer")
        .await;
}
