//! A server that does not outlive the process that started it.
//!
//! The process starts a shell that starts the server and reads commands from a pipe. The pipe closes with the process,
//! however that ends; the shell then kills the server and removes its folder. The shell has its own process group, so
//! that a signal to the test does not end it before that.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// `$1` is the folder, `$2` the signal that ends the server at once, `$3` the file for its log, the rest the server's
/// command.
const SCRIPT: &str = r#"
folder=$1 signal=$2 log=$3
shift 3
start() { "$@" >>"$log" 2>&1 </dev/null & server=$!; }
stop() { kill -"$signal" "$server" 2>/dev/null; wait "$server"; }
start "$@"
while read -r command; do
    case $command in
        start) start "$@" ;;
        stop) stop ;;
        pause) kill -STOP "$server" ;;
        resume) kill -CONT "$server" ;;
    esac
    echo done
done
kill -CONT "$server" 2>/dev/null
stop
rm -rf "$folder"
"#;

/// How often a server is polled before it counts as dead: one minute in all, because the machine may be busy.
const TRIES_MAX: u32 = 6000;
const TRY_EVERY: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub struct Supervised {
    pub folder: PathBuf,
    pub port: u16,
    supervisor: Mutex<Supervisor>,
}

#[derive(Debug)]
struct Supervisor {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Supervised {
    /// Starts a server in its folder, which is removed when it ends, and waits until its port answers.
    pub fn start(folder: PathBuf, port: u16, end_with: &str, command: &[String]) -> Supervised {
        let log = folder.join("server.log");
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "sh"]).arg(&folder).arg(end_with).arg(&log).args(command);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = shell.spawn().expect("there is a shell");
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it was asked for"));
        let server =
            Supervised { folder, port, supervisor: Mutex::new(Supervisor { child, commands, answers }) };
        server.wait_for_port();
        server
    }

    /// Kills the server. Its folder stays.
    pub fn stop(&self) {
        self.tell("stop");
    }

    pub fn start_again(&self) {
        self.tell("start");
        self.wait_for_port();
    }

    fn tell(&self, command: &str) {
        let mut supervisor = self.supervisor.lock().expect("nobody panicked meanwhile");
        let commands = supervisor.commands.as_mut().expect("it runs until it is dropped");
        writeln!(commands, "{command}").expect("the supervisor runs");
        let mut answer = String::new();
        supervisor.answers.read_line(&mut answer).expect("the supervisor answers");
        assert_eq!(answer, "done\n", "the supervisor of a server is gone");
    }

    fn wait_for_port(&self) {
        let log = self.folder.join("server.log");
        wait_until(&format!("a server listens; its log is {}", log.display()), || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
        });
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if let Ok(supervisor) = self.supervisor.get_mut() {
            supervisor.commands = None;
            // The shell ends by itself now; waiting only makes sure that the folder is gone.
            let _ = supervisor.child.wait();
        }
    }
}

pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..TRIES_MAX {
        if is_so() {
            return;
        }
        thread::sleep(TRY_EVERY);
    }
    panic!("waited in vain until {what}");
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    listener.local_addr().expect("it is bound").port()
}

/// A new folder for a server.
pub(super) fn folder(of: &str) -> PathBuf {
    let folder = tempfile::Builder::new().prefix(&format!("punctual-{of}-")).tempdir();
    folder.expect("there is a temporary folder").keep()
}

/// The data folder that `make` makes, cached in `target/tmp` under `name`, which contains the version.
pub(super) fn golden(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let kept = target().join("tmp").join("servers");
    fs::create_dir_all(&kept).expect("the target folder can be written");
    let lock = File::create(kept.join(format!("{name}.lock"))).expect("the target folder can be written");
    lock.lock().expect("a file can be locked");
    let golden = kept.join(name);
    if !golden.exists() {
        let folder = folder("golden");
        make(&folder);
        let half = kept.join(format!("{name}.half"));
        let _ = fs::remove_dir_all(&half);
        copy(&folder.join("data"), &half);
        fs::rename(&half, &golden).expect("a folder can be renamed");
        let _ = fs::remove_dir_all(&folder);
    }
    golden
}

/// Copies a folder with owners and permissions.
pub(super) fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-a").arg(from).arg(to));
}

/// Moves a folder to another disk and leaves a link in its place.
pub(super) fn move_to(disk: &Path, folder: &Path) {
    let moved = disk.join(folder.file_name().expect("a folder has a name"));
    run(Command::new("mv").arg(folder).arg(&moved));
    std::os::unix::fs::symlink(&moved, folder).expect("a link can be made");
}

pub(super) fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {said}");
}

/// The target folder that this test was built into.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.map_or_else(std::env::temp_dir, Path::to_owned)
}
