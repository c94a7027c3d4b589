//! The guardian's process. It has no async runtime but two threads: one waits for children and collects them, the other
//! listens to the worker.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{self, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process_group, set_child_subreaper, setsid,
    test_kill_process_group, wait,
};

use super::{Command, END, Said, os_string};
use crate::procfs::{self, Process};

/// The name shown by `ps`.
const NAME: &str = "punctual-guard";
/// Poll interval for processes that were killed or asked to end.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The same for processes stuck in the kernel: each poll reads all processes of the machine.
const LOOK_SELDOM: Duration = Duration::from_millis(500);

/// Guards one command until it and all its descendants are gone.
pub fn main() -> ExitCode {
    match guard() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("punctual guardian: {error} (a worker starts it, nobody else)");
            ExitCode::FAILURE
        }
    }
}

fn guard() -> io::Result<()> {
    // From here on every orphaned descendant becomes our child, whatever its session or group.
    set_child_subreaper(Some(getpid()))?;
    // Leave the worker's terminal: Ctrl-C is for the worker only, and a command cannot ask for a password.
    let _ = setsid();
    let _ = fs::write("/proc/self/comm", NAME);
    let worker = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let heard = worker.try_clone()?;
    let command = match Command::read(&worker).and_then(start) {
        Ok(command) => command,
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
            return Said::Refused { errno }.write(worker);
        }
    };
    let wishes = Arc::new(Wishes::default());
    let told = Arc::clone(&wishes);
    if thread::Builder::new().spawn(move || listen(heard, command, &told)).is_err() {
        // Without a listener the command must not run.
        see_off_the_rest(command, &wishes);
        return Said::Refused { errno: Errno::AGAIN.raw_os_error() }.write(worker);
    }
    // If the worker is gone, the listener notices it.
    let _ = Said::Started { pid: command.as_raw_nonzero().get() }.write(&worker);
    let status = wait_for(command)?;
    wishes.command_ended.store(true, Ordering::Release);
    let _ = Said::Ended { status }.write(worker);
    see_off_the_rest(command, &wishes);
    Ok(())
}

fn start(command: Command) -> io::Result<Pid> {
    let Command { program, arguments, environment, dir, input } = command;
    let mut arguments = arguments.into_iter().map(os_string);
    let mut starting = process::Command::new(os_string(program));
    if let Some(name) = arguments.next() {
        starting.arg0(name);
    }
    starting.args(arguments).env_clear();
    starting.envs(environment.into_iter().map(|(name, value)| (os_string(name), os_string(value))));
    if let Some(dir) = dir {
        starting.current_dir(os_string(dir));
    }
    // A file in memory instead of a pipe: it needs no writer.
    let mut stdin = File::from(memfd_create("params", MemfdFlags::CLOEXEC)?);
    stdin.write_all(&input)?;
    stdin.rewind()?;
    let child = starting.stdin(Stdio::from(stdin)).process_group(0).spawn()?;
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::Error::other("a child without a pid"))
}

/// Requests of the worker so far.
#[derive(Debug, Default)]
struct Wishes {
    end: AtomicBool,
    kill: AtomicBool,
    command_ended: AtomicBool,
}

/// Handles the worker's requests; the worker's death counts as KILL.
fn listen(mut worker: UnixStream, command: Pid, wishes: &Wishes) {
    let mut word = [0];
    while matches!(worker.read(&mut word), Ok(1)) && word[0] == END {
        wishes.end.store(true, Ordering::Release);
        if !wishes.command_ended.load(Ordering::Acquire) {
            let _ = kill_process_group(command, Signal::TERM);
        }
    }
    wishes.kill.store(true, Ordering::Release);
    // Repeat until the other thread has collected the last process and exits.
    let mut pause = LOOK_EVERY;
    loop {
        kill_everyone_below();
        thread::sleep(pause);
        pause = (2 * pause).min(LOOK_SELDOM);
    }
}

/// Collects ended children until the command ends.
fn wait_for(command: Pid) -> io::Result<i32> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => return Ok(status.as_raw()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills what the command left behind, and returns when nothing is left. If the command was asked to end, its group
/// gets as long as the worker allows.
fn see_off_the_rest(command: Pid, wishes: &Wishes) {
    let mut pause = LOOK_EVERY;
    while has_children() {
        let in_grace = wishes.end.load(Ordering::Acquire) && !wishes.kill.load(Ordering::Acquire);
        if !in_grace || test_kill_process_group(command).is_err() {
            kill_everyone_below();
            thread::sleep(pause);
            pause = (2 * pause).min(LOOK_SELDOM);
        } else {
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Collects ended children. Any other descendant has an ancestor that is our child.
fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Kills all descendants. A process forked meanwhile is found by the next call.
fn kill_everyone_below() {
    let everyone: Vec<Process> = procfs::all().collect();
    let mut below = HashSet::from([getpid().as_raw_nonzero().get()]);
    loop {
        let known = below.len();
        let children = everyone.iter().filter(|process| below.contains(&process.parent));
        let children: Vec<i32> = children.map(|process| process.pid.as_raw_nonzero().get()).collect();
        below.extend(children);
        if below.len() == known {
            break;
        }
    }
    below.remove(&getpid().as_raw_nonzero().get());
    for process in everyone {
        if !process.is_zombie && below.contains(&process.pid.as_raw_nonzero().get()) {
            process.kill();
        }
    }
}
