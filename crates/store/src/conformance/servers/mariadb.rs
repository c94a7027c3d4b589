//! MariaDB for tests.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::supervised::{self, Supervised};

/// Debian installs it outside the PATH of ordinary users.
const DEBIAN: &str = "/usr/sbin/mariadbd";
/// Fast and unsafe settings, for tests that do not check what survives a power loss.
const FAST: [&str; 2] = ["innodb-flush-log-at-trx-commit=0", "innodb-doublewrite=0"];
/// Settings for a small data folder, because it is copied for every server.
const SMALL: [&str; 4] = [
    "innodb-log-file-size=16M",
    "innodb-data-file-path=ibdata1:4M:autoextend",
    "innodb-temp-data-file-path=ibtmp1:4M:autoextend",
    "innodb-autoextend-increment=4",
];

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

    /// Starts a separate server, with settings such as `innodb-flush-log-at-trx-commit=1`.
    pub fn start(settings: &[&str]) -> Server {
        Server::start_from(settings, |_| {})
    }

    /// Starts a separate server that keeps its data folder on this disk.
    pub fn start_on(disk: &Path, settings: &[&str]) -> Server {
        Server::start_from(settings, |data| supervised::move_to(disk, data))
    }

    /// Starts a server after `prepare` has changed its data folder.
    fn start_from(settings: &[&str], prepare: impl FnOnce(&Path)) -> Server {
        let program = if Path::new(DEBIAN).exists() { DEBIAN } else { "mariadbd" };
        let version = Command::new(program).arg("--version").output();
        let version = version.expect("MariaDB is installed: scripts/install-deps test");
        let version = String::from_utf8_lossy(&version.stdout);
        let version = version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let golden = supervised::golden(&format!("mariadb-{}", version.unwrap_or("some")), initialise);
        let (folder, port) = (supervised::folder("mariadb"), supervised::free_port());
        let data = folder.join("data");
        supervised::copy(&golden, &data);
        prepare(&data);
        let mut command = vec![program.to_owned(), "--no-defaults".to_owned()];
        if rustix::process::geteuid().is_root() {
            command.push("--user=root".to_owned());
        }
        command.push(format!("--datadir={}", data.display()));
        command.push(format!("--socket={}", folder.join("socket").display()));
        command.push(format!("--port={port}"));
        let always = ["bind-address=127.0.0.1", "max-connections=500", "skip-name-resolve"];
        for setting in SMALL.iter().chain(&always).chain(settings) {
            command.push(format!("--{setting}"));
        }
        let supervised = Supervised::start(folder, port, "KILL", &command);
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

    /// The port answers before the server accepts statements.
    fn wait_until_ready(&self) {
        supervised::wait_until("MariaDB is ready", || {
            self.client("").args(["-e", "SELECT 1"]).output().is_ok_and(|output| output.status.success())
        });
    }

    /// The address of a new, empty database.
    pub fn database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        self.sql("", &format!("CREATE DATABASE test_{number}"));
        self.address(&format!("test_{number}"))
    }

    pub fn address(&self, database: &str) -> String {
        format!("mysql://root@127.0.0.1:{}/{database}", self.port())
    }

    /// Runs a statement with the server's own client, and returns what it printed.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let output = self.client(database).args(["-e", statement]).output();
        let output = output.expect("MariaDB brings its client");
        assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn client(&self, database: &str) -> Command {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-uroot", "-h127.0.0.1", "-BN"]);
        client.arg(format!("-P{}", self.port()));
        if !database.is_empty() {
            client.arg(format!("-D{database}"));
        }
        client
    }
}

fn initialise(folder: &Path) {
    let mut install = Command::new("mariadb-install-db");
    install.arg("--no-defaults").arg(format!("--datadir={}", folder.join("data").display()));
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    install.args(SMALL.map(|setting| format!("--{setting}")));
    if rustix::process::geteuid().is_root() {
        install.arg("--user=root");
    }
    supervised::run(&mut install);
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
