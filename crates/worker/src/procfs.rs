//! Reads processes from Linux's `/proc`.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    /// The id of its process group.
    pub(crate) group: i32,
    /// Start time in clock ticks since boot. Together with the pid it identifies a process; a pid alone may be reused.
    pub(crate) start: u64,
    /// It has ended, but its parent has not collected it yet.
    pub(crate) is_zombie: bool,
}

impl Process {
    pub(crate) fn read(pid: Pid) -> Option<Process> {
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        parse(pid, &stat)
    }

    /// Whether an entry of its initial environment starts with these bytes.
    pub(crate) fn was_started_with(&self, entry_start: &[u8]) -> bool {
        let environ = fs::read(format!("/proc/{}/environ", self.pid.as_raw_nonzero()));
        environ
            .is_ok_and(|entries| entries.split(|byte| *byte == 0).any(|entry| entry.starts_with(entry_start)))
    }

    /// Kills exactly this process: the pidfd prevents killing another process that reuses the pid.
    pub(crate) fn kill(&self) {
        if let Ok(handle) = pidfd_open(self.pid, PidfdFlags::empty())
            && Process::read(self.pid).is_some_and(|now| now.start == self.start)
        {
            // It may have ended by itself meanwhile.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }
}

/// All processes visible to us.
pub(crate) fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        Process::read(pid)
    })
}

/// The name, in brackets, may contain any characters; the wanted fields follow it.
fn parse(pid: Pid, stat: &[u8]) -> Option<Process> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let start = fields.nth(16)?.parse().ok()?;
    Some(Process { pid, parent, group, start, is_zombie: matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_awkward_name_is_understood() {
        let pid = Pid::from_raw(7).unwrap();
        let stat = b"7 (a) Z (b) S 1 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 8000 200";
        let process = Process { pid, parent: 1, group: 42, start: 987_654, is_zombie: false };
        assert_eq!(parse(pid, stat), Some(process));
        assert_eq!(parse(pid, b"7 (sh"), None);
    }

    #[test]
    fn we_find_ourselves() {
        let ourselves = rustix::process::getpid();
        assert!(all().any(|process| process.pid == ourselves && !process.is_zombie));
    }
}
