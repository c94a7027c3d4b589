//! System calls that fail or are slow, by strace under the process.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::node::Node;
use crate::wait::{self, SOON};

/// Every way in which a file is made durable.
const SYNC: &str = "fsync,fdatasync,sync_file_range,msync";

#[derive(Debug)]
pub struct Injection {
    strace: Child,
    /// The process under it.
    pid: u32,
}

impl Injection {
    /// From now on nothing can be made durable: every attempt fails with EIO.
    #[track_caller]
    pub fn sync_fails(node: &Node) -> Injection {
        Injection::attach(node, "error=EIO")
    }

    /// From now on making something durable takes this much longer.
    #[track_caller]
    pub fn sync_is_slow(node: &Node, by: Duration) -> Injection {
        Injection::attach(node, &format!("delay_enter={}", by.as_micros()))
    }

    #[track_caller]
    fn attach(node: &Node, fault: &str) -> Injection {
        let pid = node.pid();
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={SYNC}")]);
        strace.args(["-e", &format!("inject={SYNC}:{fault}"), "-p", &pid.to_string()]);
        let strace = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let strace = strace.expect("strace is installed: scripts/install-deps test");
        let mut injection = Injection { strace, pid };
        let attached = wait::until("strace holds every thread, or gives up", SOON, || {
            match injection.strace.try_wait().expect("a child can be asked") {
                Some(_) => Some(false),
                None => all_traced(pid).then_some(true),
            }
        });
        assert!(attached, "strace may not attach to a process here: run the tests as root");
        injection
    }
}

impl Drop for Injection {
    /// Lets go of the process, which goes on as if nothing had been.
    fn drop(&mut self) {
        if let Some(strace) = Pid::from_raw(self.strace.id().cast_signed()) {
            let _ = kill_process(strace, Signal::TERM);
        }
        let _ = self.strace.wait();
        wait::until_so("strace has let go", SOON, || tracers(self.pid).iter().all(|tracer| tracer == "0"));
    }
}

fn all_traced(pid: u32) -> bool {
    let tracers = tracers(pid);
    !tracers.is_empty() && tracers.iter().all(|tracer| tracer != "0")
}

/// Who traces each thread of a process; `0`: nobody. Empty: the process is gone.
fn tracers(pid: u32) -> Vec<String> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let status = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    let tracer = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
        Some(line.trim().to_owned())
    };
    status.filter_map(tracer).collect()
}
