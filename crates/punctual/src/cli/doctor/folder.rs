//! Checks the data folder: permissions, free space, which process uses it, and whether the store opens.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use punctual_core::ids::SessionId;
use punctual_store::Store;
use rustix::fs::{Access, access, statfs, statvfs};
use serde::Deserialize;

use super::Check;
use crate::settings::{Durability, Settings};
use crate::wiring;

/// Below this, a busy node soon runs out of space.
const ROOM_LOW: u64 = 1 << 30;
/// Below this, SQLite cannot even compact its files.
const ROOM_MIN: u64 = 64 << 20;
/// The permission bits of other users: the files contain payloads and output.
const NOT_FOR_OTHERS: u32 = 0o077;

/// The process that uses the folder, and its address.
#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) held_by: Option<u32>,
    pub(super) address: Option<Address>,
}

/// The address file that a node writes into its data folder.
#[derive(Debug, Deserialize)]
pub(super) struct Address {
    pub(super) http: String,
    pub(super) url: String,
    pid: u32,
}

impl Lock {
    pub(super) fn look(data: &Path) -> Lock {
        let Some(held_by) = holder(&data.join("lock")) else { return Lock::default() };
        let address = fs::read_to_string(data.join("punctual.json")).ok();
        let address: Option<Address> = address.and_then(|text| serde_json::from_str(&text).ok());
        // A killed node leaves its address file behind, so compare the process id.
        Lock { held_by: Some(held_by), address: address.filter(|address| address.pid == held_by) }
    }
}

/// The process that holds the lock, from `/proc/locks`: trying to take the lock could stop a node from starting.
fn holder(lock: &Path) -> Option<u32> {
    let inode = fs::metadata(lock).ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| lock_line(line, &inode))
}

/// `1: FLOCK  ADVISORY  WRITE 4711 08:01:131074 0 EOF`
fn lock_line(line: &str, inode: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    let (kind, _, mode) = (words.next()?, words.next()?, words.next()?);
    let (pid, file) = (words.next()?, words.next()?);
    let is_it = kind == "FLOCK" && mode == "WRITE" && file.rsplit(':').next() == Some(inode);
    if is_it { pid.parse().ok() } else { None }
}

pub(super) fn look(settings: &Settings, lock: &Lock) -> Vec<Check> {
    let data = &settings.data;
    if !data.exists() {
        return vec![to_be_made(data), durability(settings)];
    }
    if !data.is_dir() {
        let found = format!("{} is a file", data.display());
        return vec![Check::fail("data folder", found, "--data or PUNCTUAL_DATA names a folder")];
    }
    vec![usable(data, lock), modes(data), room(data), durability(settings)]
}

fn to_be_made(data: &Path) -> Check {
    let exists = |path: &&Path| path.as_os_str().is_empty() || path.exists();
    let parent = data.ancestors().skip(1).find(exists).filter(|path| !path.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    match access(parent, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok("data folder", format!("{} will be made by the first start", data.display())),
        Err(error) => Check::fail(
            "data folder",
            format!("{} cannot be made in {}: {error}", data.display(), parent.display()),
            "let the user of the node write there, or name another folder by --data",
        ),
    }
}

fn usable(data: &Path, lock: &Lock) -> Check {
    let shown = data.display();
    if let Err(error) = access(data, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        let hint = format!("`chown -R USER {shown}`, or name another folder by --data");
        return Check::fail("data folder", format!("{shown} cannot be used: {error}"), hint);
    }
    match lock.held_by {
        Some(pid) => Check::ok("data folder", format!("{shown}, in use by process {pid}")),
        None => Check::ok("data folder", format!("{shown}, not in use")),
    }
}

fn modes(data: &Path) -> Check {
    let files = ["", "punctual.db", "punctual.db-wal", "logs.db", "logs.db-wal", "acknowledged"];
    let open_to_others = |name: &&str| {
        let mode = fs::metadata(data.join(name)).map_or(0, |found| found.permissions().mode());
        mode & NOT_FOR_OTHERS != 0
    };
    let open: Vec<PathBuf> =
        files.iter().filter(|name| open_to_others(name)).map(|name| data.join(name)).collect();
    match open.first() {
        None => Check::ok("file modes", "only the owner may look into the store"),
        Some(first) => Check::warn(
            "file modes",
            format!("{} of {} are open to others, such as {}", open.len(), files.len(), first.display()),
            format!("`chmod -R go= {}`: payloads and output are in there", data.display()),
        ),
    }
}

fn room(data: &Path) -> Check {
    let found = match statvfs(data) {
        Ok(found) => found,
        Err(error) => return Check::warn("disk", format!("cannot be asked: {error}"), "look with `df -h`"),
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let shown = format!("{} free", human(free));
    let make_room = "make room: a full disk refuses writes, though it loses nothing";
    match (free, kind(data)) {
        (..ROOM_MIN, _) => Check::fail("disk", shown, make_room),
        (..ROOM_LOW, _) => Check::warn("disk", shown, make_room),
        (_, Some((kind, why))) => Check::warn("disk", format!("{shown}, on {kind}"), why),
        _ if found.f_files > 0 && found.f_favail == 0 => Check::fail("disk", "no inodes are free", make_room),
        _ => Check::ok("disk", shown),
    }
}

/// File systems that do not keep data safely.
fn kind(data: &Path) -> Option<(&'static str, &'static str)> {
    let locks = "locks and shared memory of SQLite need a local disk: put the data folder on one";
    let found = statfs(data).ok()?;
    match u32::try_from(found.f_type).ok()? {
        0x6969 => Some(("NFS", locks)),
        0xff53_4d42 | 0xfe53_4d42 => Some(("SMB", locks)),
        0x0102_1994 => Some(("tmpfs", "it is memory and gone after a restart of the machine")),
        0x794c_7630 => Some((
            "the layer of a container",
            "it is deleted with the container; mount a volume for the data folder",
        )),
        _ => None,
    }
}

fn durability(settings: &Settings) -> Check {
    match settings.durability {
        Durability::Full => Check::ok("durability", "full: what was acknowledged survives a power loss"),
        Durability::Relaxed => Check::warn(
            "durability",
            "relaxed: what was acknowledged survives a crash, not a power loss",
            "set store.durability to \"full\", unless this is a test",
        ),
    }
}

pub(super) async fn store(settings: &Settings, lock: &Lock, may_open: bool) -> Check {
    if lock.held_by.is_some() {
        return Check::ok("store", "open: the node that uses it answers for it");
    }
    if !settings.data.join("punctual.db").exists() {
        return Check::ok("store", "none yet");
    }
    if !may_open {
        return Check::ok("store", "not in use and left alone");
    }
    let opened = match wiring::open_store(settings, SessionId(0)).await {
        Ok(opened) => counted(&*opened.store).await,
        Err(error) => Err(format!("{:#}", anyhow::Error::from(error))),
    };
    match opened {
        Ok(found) => Check::ok("store", found),
        Err(error) => {
            Check::fail("store", error, "the log of the node and docs/why-did-my-job-not-run.md tell more")
        }
    }
}

async fn counted(store: &dyn Store) -> Result<String, String> {
    let stats = store.stats().await.map_err(|error| error.to_string())?;
    let runs = stats.live_runs + stats.history_runs;
    Ok(format!("opens: {} jobs, {runs} runs, {} dead letters", stats.jobs, stats.dead_letters))
}

fn human(bytes: u64) -> String {
    match bytes {
        ROOM_LOW.. => format!("{} GiB", bytes >> 30),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::settings::Overrides;

    fn settings(data: &Path) -> Settings {
        Settings::read(None, Overrides { data: Some(data.to_owned()), ..Overrides::default() }).unwrap()
    }

    #[test]
    fn the_holder_of_a_lock_is_read_from_the_system() {
        let line = "2: FLOCK  ADVISORY  WRITE 4711 08:01:131074 0 EOF";
        assert_eq!(lock_line(line, "131074"), Some(4711));
        assert_eq!(lock_line(line, "31074"), None);
        assert_eq!(lock_line("2: POSIX  ADVISORY  WRITE 4711 08:01:131074 0 EOF", "131074"), None);
        assert_eq!(lock_line("2: -> FLOCK", "131074"), None);
    }

    #[test]
    fn a_folder_is_judged_by_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let verdict = |data: &Path, what: &str| {
            let checks = look(&settings(data), &Lock::default());
            checks.into_iter().find(|check| check.what == what).map(|check| check.verdict)
        };
        assert_eq!(verdict(&dir.path().join("new/deep"), "data folder"), Some(Verdict::Ok));
        assert_eq!(verdict(dir.path(), "data folder"), Some(Verdict::Ok));
        assert_eq!(verdict(dir.path(), "file modes"), Some(Verdict::Ok));
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(verdict(&file, "data folder"), Some(Verdict::Fail));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(verdict(dir.path(), "file modes"), Some(Verdict::Warn));
    }

    #[tokio::test]
    async fn a_store_that_is_no_store_fails_and_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        assert_eq!(store(&settings, &Lock::default(), true).await.found, "none yet");
        fs::write(dir.path().join("punctual.db"), "not a database at all, but long enough to be read as one")
            .unwrap();
        let left_alone = store(&settings, &Lock::default(), false).await;
        assert_eq!(left_alone.verdict, Verdict::Ok, "{left_alone:?}");
        let refused = store(&settings, &Lock::default(), true).await;
        assert_eq!(refused.verdict, Verdict::Fail, "{refused:?}");
    }
}
