//! A program with its arguments, from its start until nothing of it is left.
//!
//! One task does it all: it feeds the program its parameters, reads both its streams, waits for its end and for
//! the word to stop. The attempt is over when the program has ended, everyone in its group is gone, and what
//! it printed is in the log.
//!
//! ```text
//!  launch ──▶ running ──ends by itself──▶ the rest of its group: KILL ──▶ read what is left ──▶ outcome
//!                └──stop──▶ group: TERM ──all gone, or grace over──▶ group and daemons: KILL ──┘
//! ```

use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{End, Outcome};
use punctual_core::limits::{ERROR_BYTES_MAX, OUTPUT_BYTES_MAX};
use punctual_core::task::Process;
use rustix::process::{Pid, Signal};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::sync::watch;
use tokio::time::timeout;

use super::group::{Group, KILL_MAX};
use super::launch::launch;
use super::output::{self, Tail, cut_end};
use super::{Attempt, Ending, Host};
use crate::attempts::Stop;
use crate::log::{Stream, Transcript};

/// A program that has ended has left its last words in the pipe. Silence of this length means that there are no
/// more, and that someone in the background only holds it open.
const LINGER: Duration = Duration::from_millis(500);
/// What a pipe may hold, if the program asked Linux for the most: reading more means that someone still writes.
const PIPE_BYTES_MAX: u64 = 1024 * 1024;

pub(super) async fn execute(process: &Process, attempt: Attempt, host: &Host) -> Ending {
    let Attempt { assignment, started_at, stop } = attempt;
    let (run, token) = (assignment.run, assignment.token);
    let transcript = Transcript::new(run, token, Arc::clone(&host.clock), Arc::clone(&host.logs));
    let mark = host.groups.mark(run, token);
    let mut child = match launch(process, &assignment, &mark) {
        Ok(child) => child,
        Err(message) => {
            transcript.note(&message).await;
            return Ending { outcome: Outcome::failed(started_at, message), stopped: None };
        }
    };
    let group = host.groups.enter(leader_of(&child), mark);
    let mut printed = Printed { out: Tail::new(OUTPUT_BYTES_MAX), err: Tail::new(ERROR_BYTES_MAX) };
    let supervisor = Supervisor { group, stop, grace: host.grace, transcript: &transcript };
    let exit = supervisor.see_through(&mut child, &assignment.params.0, &mut printed).await;
    transcript.close().await;
    Ending { stopped: exit.stopped, outcome: exit.into_outcome(printed, started_at) }
}

fn leader_of(child: &Child) -> Pid {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    pid.expect("a child that nobody has waited for has a pid")
}

/// The ends of both streams.
struct Printed {
    out: Tail,
    err: Tail,
}

/// How a program ended.
struct Exit {
    /// None: it is stuck in the kernel, and did not even go when it was killed.
    status: Option<ExitStatus>,
    stopped: Option<Stop>,
}

struct Supervisor<'a> {
    group: Group,
    stop: watch::Receiver<Option<Stop>>,
    grace: Duration,
    transcript: &'a Transcript,
}

impl Supervisor<'_> {
    async fn see_through(mut self, child: &mut Child, params: &str, printed: &mut Printed) -> Exit {
        let transcript = self.transcript;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
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
            let ending = self.wait(child);
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
        self.group.leave();
        exit
    }

    /// Waits until the program has ended, by itself or because we stopped it, and nobody of its group is left.
    async fn wait(&mut self, child: &mut Child) -> Exit {
        let stop = tokio::select! {
            biased;
            status = child.wait() => {
                let gone = self.group.kill().await;
                if !gone {
                    self.transcript.note("a process that it left in the background cannot be killed").await;
                }
                return Exit { status: status.ok(), stopped: None };
            }
            stop = stop_asked(&mut self.stop) => stop,
        };
        self.end(child, stop).await;
        let status = timeout(KILL_MAX, child.wait()).await;
        Exit { status: status.ok().and_then(Result::ok), stopped: Some(stop) }
    }

    /// A log that is slow to take the note does not delay the end.
    async fn end(&mut self, child: &mut Child, stop: Stop) {
        self.group.signal(Signal::TERM);
        let asked = format!("asked to end: {stop}");
        let (is_late, ()) = tokio::join!(self.kill_in_time(child, stop), self.transcript.note(&asked));
        if is_late {
            let grace = self.grace.as_secs_f32();
            self.transcript.note(&format!("still there after {grace} s: killed")).await;
        }
    }

    /// Kills what has not ended when the grace is over. True: there was something.
    async fn kill_in_time(&self, child: &mut Child, stop: Stop) -> bool {
        let all_gone = async {
            // A failure to wait leaves it to the grace to run out.
            let _ = child.wait().await;
            self.group.wait_until_empty().await;
        };
        let is_late = timeout(self.grace, all_gone).await.is_err();
        self.group.kill().await;
        // At a shutdown one look for daemons of all attempts follows, rather than one look for each.
        if stop != Stop::Shutdown {
            self.group.kill_daemons().await;
        }
        is_late
    }
}

impl Exit {
    fn into_outcome(self, printed: Printed, started_at: Timestamp) -> Outcome {
        let exit_code = self.status.and_then(|status| status.code());
        let end = if exit_code == Some(0) && self.stopped.is_none() { End::Succeeded } else { End::Failed };
        let error = match (end, self.stopped) {
            (End::Succeeded, _) => String::new(),
            (End::Failed, Some(stop)) => format!("{stop}: {}", self.in_words()),
            (End::Failed, None) => match printed.err.into_last_line() {
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
        }
    }

    fn in_words(&self) -> String {
        match self.status.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => format!("exit code {code}"),
            Some((None, Some(signal))) => format!("killed by signal {signal}{}", name_of(signal)),
            Some((None, None)) | None => "it cannot be killed and is still there".to_owned(),
        }
    }
}

/// The name of a signal that people meet, in brackets.
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

/// Writes the parameters and closes. A program that does not read them is free to do so.
async fn feed(stdin: Option<ChildStdin>, params: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(params.as_bytes()).await;
    }
}

async fn stop_asked(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    // A worker that is gone cannot say why.
    stop.wait_for(Option::is_some).await.ok().and_then(|stop| *stop).unwrap_or(Stop::Shutdown)
}

/// Reads what an ended program has left in its pipes. Who inherited them may hold them open for ever.
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
