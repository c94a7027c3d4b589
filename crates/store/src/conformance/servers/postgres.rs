//! PostgreSQL for tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::supervised::{self, Supervised};

const USER: &str = "punctual";
/// Debian installs its programs outside the PATH.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user that runs the server if the test runs as root: PostgreSQL refuses to run as root.
const UNPRIVILEGED: &str = "postgres";
/// Fast and unsafe settings, for tests that do not check what survives a power loss.
const FAST: [&str; 2] = ["fsync=off", "full_page_writes=off"];

#[derive(Debug)]
pub struct Server {
    supervised: Supervised,
    databases: AtomicU32,
}

impl Server {
    /// The shared server of this process. It does not sync: open it with `durability=relaxed`.
    pub fn shared() -> &'static Server {
        static SHARED: LazyLock<Server> = LazyLock::new(|| Server::start(&FAST));
        &SHARED
    }

    /// The shared server of this process with full durability.
    pub fn durable() -> &'static Server {
        static DURABLE: LazyLock<Server> = LazyLock::new(|| Server::start(&[]));
        &DURABLE
    }

    /// Starts a separate server, with settings such as `fsync=on`.
    pub fn start(settings: &[&str]) -> Server {
        Server::start_from(settings, |_| {})
    }

    /// Starts a separate server that keeps a part of its data folder on this disk: `pg_wal` is its write-ahead log,
    /// `base` its tables.
    pub fn start_on(disk: &Path, part: &str, settings: &[&str]) -> Server {
        Server::start_from(settings, |data| supervised::move_to(disk, &data.join(part)))
    }

    /// Starts a server after `prepare` has changed its data folder.
    fn start_from(settings: &[&str], prepare: impl FnOnce(&Path)) -> Server {
        let programs = programs();
        let version = Command::new(programs.join("postgres")).arg("--version").output();
        let version = version.expect("PostgreSQL is installed: scripts/install-deps test");
        let version = String::from_utf8_lossy(&version.stdout);
        let name: String =
            version.trim().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
        let golden = supervised::golden(&name, |folder| initialise(&programs, folder));
        let (folder, port) = (supervised::folder("postgres"), supervised::free_port());
        let data = folder.join("data");
        supervised::copy(&golden, &data);
        prepare(&data);
        give_away(&folder);
        let mut command = unprivileged();
        command.push(programs.join("postgres").display().to_string());
        let folders = [format!("-D{}", data.display()), format!("-k{}", folder.display())];
        command.extend(folders.into_iter().chain([format!("-p{port}")]));
        let always = ["listen_addresses=127.0.0.1", "max_connections=200"];
        for setting in always.iter().chain(settings) {
            command.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        let supervised = Supervised::start(folder, port, "QUIT", &command);
        let server = Server { supervised, databases: AtomicU32::new(0) };
        server.wait_until_ready();
        server
    }

    pub fn port(&self) -> u16 {
        self.supervised.port
    }

    pub fn folder(&self) -> &Path {
        &self.supervised.folder
    }

    /// Kills the server, like a crash.
    pub fn stop(&self) {
        self.supervised.stop();
    }

    pub fn start_again(&self) {
        self.supervised.start_again();
        self.wait_until_ready();
    }

    /// The port answers before recovery is done.
    fn wait_until_ready(&self) {
        let mut asked = Command::new(programs().join("pg_isready"));
        asked.args(["-q", "-h", "127.0.0.1", "-p", &self.port().to_string()]);
        supervised::wait_until("PostgreSQL is ready", || asked.status().is_ok_and(|status| status.success()));
    }

    /// The address of a new, empty database.
    pub fn database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        self.sql("postgres", &format!("CREATE DATABASE test_{number}"));
        self.address(&format!("test_{number}"))
    }

    pub fn address(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port())
    }

    /// Runs a statement with the server's own client, and returns what it printed.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let mut psql = Command::new(programs().join("psql"));
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", &self.address(database), "-c", statement]);
        let output = psql.output().expect("PostgreSQL brings psql");
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

fn initialise(programs: &Path, folder: &Path) {
    give_away(folder);
    let mut command = unprivileged();
    command.push(programs.join("initdb").display().to_string());
    command.push(format!("--pgdata={}", folder.join("data").display()));
    let options = ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--wal-segsize=1"];
    command.extend(options.map(str::to_owned));
    command.push(format!("--username={USER}"));
    supervised::run(Command::new(&command[0]).args(&command[1..]));
}

/// The prefix of a command that keeps it from running as root.
fn unprivileged() -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let user = format!("--reuid={UNPRIVILEGED}");
    ["setpriv", &user, &format!("--regid={UNPRIVILEGED}"), "--clear-groups"].map(str::to_owned).to_vec()
}

/// Gives a file or folder to the user that runs the server.
pub fn give_away(folder: &Path) {
    if rustix::process::geteuid().is_root() {
        supervised::run(Command::new("chown").arg(format!("{UNPRIVILEGED}:")).arg(folder));
    }
}

/// The folder with the programs of the newest PostgreSQL of this machine.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let newest = versions.map(|entry| entry.path()).max_by_key(|path| number(path));
    if let Some(bin) = newest.map(|path| path.join("bin")).filter(|bin| bin.join("postgres").exists()) {
        return bin;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|folder| folder.join("postgres").exists());
    on_path.expect("PostgreSQL is installed: scripts/install-deps test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_starts_stops_and_leaves_nothing_behind() {
        let server = Server::start(&FAST);
        let folder = server.folder().to_owned();
        let address = server.database();
        assert!(address.ends_with("/test_0"));
        server.sql("test_0", "CREATE TABLE kept (a int)");
        server.stop();
        server.start_again();
        assert_eq!(server.sql("test_0", "SELECT count(*) FROM kept"), "0");
        drop(server);
        assert!(!folder.exists());
    }
}
