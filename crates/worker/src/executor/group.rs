//! Process groups: they end an attempt as a whole, and no group outlives its worker.
//!
//! A program is started in its own group, and a signal to the group reaches all processes it forked. A process that
//! left the group (a daemon) still has a mark in its environment: the worker's folder, the run and the token. The
//! leader of each group is also recorded in that folder with pid and start time, so that the next worker of the folder
//! can kill what a crash left behind, but no other process that reuses a pid.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::{RunId, Token};
use rustix::process::{Pid, Signal, kill_process_group};
use tracing::{info, warn};

use crate::procfs::{self, Process};
use crate::worker::Error;

/// The environment variable with the mark.
pub(super) const MARK: &str = "PUNCTUAL_MARK";
/// How long a killed process may take to end. Only a process stuck in the kernel takes longer.
pub(super) const KILL_MAX: Duration = Duration::from_secs(2);
/// Poll interval for the end of a process: there are no notifications about grandchildren.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The groups of one worker.
#[derive(Debug)]
pub(crate) struct Groups {
    folder: PathBuf,
    /// Device and inode of the folder: unlike its path, unique on this machine.
    mark: Arc<str>,
    /// The boot id: recorded start times are valid only within one boot.
    boot: String,
    /// Held for the worker's lifetime: two workers on one folder would kill each other's processes.
    _lock: File,
}

impl Groups {
    /// Locks a folder and kills what an earlier worker left there.
    pub(crate) fn open(scratch: &Path) -> Result<Groups, Error> {
        let failed = |source| Error::Scratch { path: scratch.to_owned(), source };
        let folder = scratch.join("groups");
        fs::create_dir_all(&folder).map_err(failed)?;
        let lock = File::create(scratch.join("worker.lock")).map_err(failed)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::InUse(scratch.to_owned()),
            TryLockError::Error(source) => failed(source),
        })?;
        let about = fs::metadata(&folder).map_err(failed)?;
        let mark = format!("{:x}-{:x}/", about.dev(), about.ino()).into();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(failed)?.trim().to_owned();
        let groups = Groups { folder, mark, boot, _lock: lock };
        groups.sweep().map_err(failed)?;
        Ok(groups)
    }

    /// The mark of all processes that an attempt starts.
    pub(super) fn mark(&self, run: RunId, token: Token) -> String {
        format!("{}{run}/{token}/", self.mark)
    }

    /// Records a group that was just started.
    pub(super) fn enter(&self, leader: Pid, mark: String) -> Group {
        let record = self.folder.join(leader.as_raw_nonzero().to_string());
        let start = Process::read(leader).map_or(0, |process| process.start);
        if let Err(error) = fs::write(&record, format!("{start} {}\n", self.boot)) {
            warn!(%error, record = %record.display(), "cannot record a process group");
        }
        Group { leader, mark, record, is_over: false }
    }

    /// Kills all processes with our mark.
    pub(crate) async fn kill_all(&self) {
        kill_marked(self.mark.to_string()).await;
    }

    fn sweep(&self) -> io::Result<()> {
        let recorded = self.recorded()?;
        let entry = entry_of(&self.mark);
        let killed = kill_where(|process| {
            let leader = Pid::from_raw(process.group).and_then(Process::read);
            leader.is_some_and(|leader| recorded.get(&process.group) == Some(&leader.start))
                || process.was_started_with(&entry)
        });
        if killed > 0 {
            info!(killed, "killed processes that an earlier worker left behind");
        }
        for group in recorded.keys() {
            fs::remove_file(self.folder.join(group.to_string()))?;
        }
        Ok(())
    }

    /// The recorded groups, with the start time of their leader; 0 means it cannot be alive any more.
    fn recorded(&self) -> io::Result<HashMap<i32, u64>> {
        let mut recorded = HashMap::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Some(group) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A record cut short by a crash is useless; the mark still finds its processes.
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let start = match text.split_once(' ') {
                Some((start, boot)) if boot.trim() == self.boot => start.parse().unwrap_or(0),
                _ => 0,
            };
            recorded.insert(group, start);
        }
        Ok(recorded)
    }
}

/// The group of one attempt. If it is dropped before its end, as in a panic, it is killed.
#[derive(Debug)]
pub(super) struct Group {
    leader: Pid,
    mark: String,
    record: PathBuf,
    is_over: bool,
}

impl Group {
    /// Sends a signal. False means the group is empty.
    ///
    /// The leader may have ended already. Its pid is not reused while the group has members. Only a group that became
    /// empty since the last check could be confused with a new one, after all other pids were used.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        kill_process_group(self.leader, signal).is_ok()
    }

    /// Returns when no process of the group is alive.
    pub(super) async fn wait_until_empty(&self) {
        let group = self.leader.as_raw_nonzero().get();
        while rustix::process::test_kill_process_group(self.leader).is_ok() {
            // Uncollected zombies, as in a container without an init, count as gone.
            let look = move || procfs::all().any(|process| process.group == group && !process.is_zombie);
            if matches!(tokio::task::spawn_blocking(look).await, Ok(false)) {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Kills the group. False means a process is stuck in the kernel.
    pub(super) async fn kill(&self) -> bool {
        !self.signal(Signal::KILL) || tokio::time::timeout(KILL_MAX, self.wait_until_empty()).await.is_ok()
    }

    /// Kills processes that left the group, too.
    pub(super) async fn kill_daemons(&self) {
        kill_marked(self.mark.clone()).await;
    }

    /// The attempt is over: removes its record.
    pub(super) fn leave(mut self) {
        self.is_over = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_over {
            self.signal(Signal::KILL);
        }
        if let Err(error) = fs::remove_file(&self.record) {
            warn!(%error, record = %self.record.display(), "cannot remove the record of a process group");
        }
    }
}

fn entry_of(mark: &str) -> Vec<u8> {
    format!("{MARK}={mark}").into_bytes()
}

async fn kill_marked(mark: String) {
    let entry = entry_of(&mark);
    let killing = tokio::task::spawn_blocking(move || kill_where(|process| process.was_started_with(&entry)));
    if let Err(error) = killing.await {
        warn!(%error, "cannot look for processes that left their group");
    }
}

/// Kills repeatedly until no process matches, because a process may fork meanwhile. Returns the number of killed
/// processes.
fn kill_where(is_meant: impl Fn(&Process) -> bool) -> usize {
    let ourselves = rustix::process::getpid();
    let mut killed = Vec::new();
    for _ in 0..KILL_MAX.as_millis() / LOOK_EVERY.as_millis() {
        let found: Vec<Process> = procfs::all()
            .filter(|process| process.pid != ourselves && !process.is_zombie && is_meant(process))
            .collect();
        if found.is_empty() {
            return killed.len();
        }
        for process in found {
            process.kill();
            if !killed.contains(&process.pid) {
                killed.push(process.pid);
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
    warn!("some processes do not go, though they were killed");
    killed.len()
}
