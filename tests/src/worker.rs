//! One worker process: `punctual worker`, or an example program.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::binary;
use crate::wait::{self, SOON};

#[derive(Debug)]
pub struct Worker {
    log: PathBuf,
    command: Command,
    child: Option<Child>,
}

impl Worker {
    /// Starts it for a server, with further words of the command line, and waits for nothing.
    #[track_caller]
    pub fn spawn(folder: &Path, name: &str, server: &str, words: &[&str]) -> Worker {
        Worker::spawn_in(folder, name, server, words, &[])
    }

    /// The same with further variables in its environment.
    #[track_caller]
    pub fn spawn_in(folder: &Path, name: &str, server: &str, words: &[&str], env: &[(&str, &str)]) -> Worker {
        let mut command = Command::new(binary::path());
        command.args(["worker", "--name", name, "--server", server, "--data"]).arg(folder.join("data"));
        command.args(words).env("NO_COLOR", "1").envs(env.iter().copied());
        Worker::spawn_command(folder, command)
    }

    /// The worker in `examples/rows.rs`, ready for a server with one or more URLs.
    #[track_caller]
    pub fn of_rows(folder: &Path, name: &str, servers: &[String], token: Option<&str>) -> Worker {
        let mut command = Command::new(binary::example("rows"));
        command.arg(name).args(servers).envs(token.map(|token| ("PUNCTUAL_TOKEN", token)));
        let worker = Worker::spawn_command(folder, command);
        wait::until_so("the worker is taken", SOON, || worker.printed().contains("is ready"));
        worker
    }

    fn spawn_command(folder: &Path, mut command: Command) -> Worker {
        fs::create_dir_all(folder).expect("a folder of the scene can be made");
        let log = folder.join("worker.log");
        let file = OpenOptions::new().create(true).append(true).open(&log).expect("the log can be opened");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file can be shared")).stderr(file);
        command.process_group(0);
        let mut worker = Worker { log, command, child: None };
        worker.start_again();
        worker
    }

    /// Starts it as it was started before, when it has ended.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "the worker is running already");
        self.child = Some(self.command.spawn().expect("the binary can be started"));
    }

    /// Waits until it says for whom it works.
    #[track_caller]
    pub fn wait_until_ready(&mut self) {
        wait::until_so("the worker is taken", SOON, || self.printed().contains("takes up to"));
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.raw_pid(), signal).expect("the worker can be signalled");
    }

    /// kill -9: no good-bye.
    #[track_caller]
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait_for_end();
    }

    #[track_caller]
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let status = wait::until("the worker ends", SOON, || {
            let child = self.child.as_mut().expect("the worker is running");
            child.try_wait().expect("a child can be asked")
        });
        self.child = None;
        status
    }

    pub fn is_running(&mut self) -> bool {
        match &mut self.child {
            Some(child) => child.try_wait().expect("a child can be asked").is_none(),
            None => false,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the worker is running").id()
    }

    fn raw_pid(&self) -> Pid {
        Pid::from_raw(self.pid().cast_signed()).expect("a child has a pid")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.child.is_some() {
            let _ = kill_process_group(self.raw_pid(), Signal::KILL);
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}
