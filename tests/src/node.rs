//! One `punctual dev` process: started, asked, killed, started again.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::api::Api;
use crate::binary;
use crate::wait::{self, SOON};

#[derive(Debug)]
pub struct Node {
    data: PathBuf,
    log: PathBuf,
    env: Vec<(OsString, OsString)>,
    /// What is started instead of the binary itself, with its arguments; it ends up as the binary.
    program: Option<(OsString, Vec<OsString>)>,
    /// Who the harness is to it, where it asks.
    token: Option<String>,
    /// Whom the harness trusts, where it has a certificate.
    ca: Option<PathBuf>,
    child: Option<Child>,
    api: Option<Api>,
}

impl Node {
    pub(crate) fn new(data: PathBuf, log: PathBuf) -> Node {
        Node { data, log, env: Vec::new(), program: None, token: None, ca: None, child: None, api: None }
    }

    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Node {
        self.env.push((name.into(), value.into()));
        self
    }

    /// From its next start on, in place of what it was.
    pub fn set_env(&mut self, name: &str, value: Option<&str>) {
        self.env.retain(|(old, _)| old != name);
        self.env.extend(value.map(|value| (name.into(), value.into())));
    }

    #[must_use]
    pub fn with_data(mut self, data: impl Into<PathBuf>) -> Node {
        self.data = data.into();
        self
    }

    /// What the harness shows to it, where it asks for a token.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Node {
        self.token = Some(token.to_owned());
        self
    }

    /// Whom the harness trusts when it asks over TLS.
    #[must_use]
    pub fn with_ca(mut self, ca: impl Into<PathBuf>) -> Node {
        self.ca = Some(ca.into());
        self
    }

    /// Prints somewhere else than the other processes of its scene.
    #[must_use]
    pub fn with_log(mut self, log: impl Into<PathBuf>) -> Node {
        self.log = log.into();
        self
    }

    /// Starts this program instead, which becomes the binary in its own way.
    #[must_use]
    pub fn with_program<S: Into<OsString>>(
        mut self,
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Node {
        self.program = Some((program.into(), arguments.into_iter().map(Into::into).collect()));
        self
    }

    /// Starts the process and waits until it is ready.
    #[track_caller]
    pub fn start(&mut self) {
        self.spawn();
        self.wait_until_ready();
    }

    /// Starts the process and lets it do what it does.
    #[track_caller]
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "the node is running already");
        // The file names the address of an earlier process, which must not be used.
        let _ = fs::remove_file(self.address_file());
        let log =
            OpenOptions::new().create(true).append(true).open(&self.log).expect("the log can be opened");
        let mut command = match &self.program {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            None => {
                let mut command = Command::new(binary::path());
                command.args(["dev", "--http", "127.0.0.1:0", "--data"]).arg(&self.data);
                // Where nobody else's is, unless the scene says where.
                command.env("PUNCTUAL_RESP", "127.0.0.1:0");
                command
            }
        };
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file can be shared")).stderr(log);
        self.child = Some(command.process_group(0).spawn().expect("the binary can be started"));
    }

    #[track_caller]
    pub fn wait_until_ready(&mut self) {
        let api = wait::until("the node says where it listens", SOON, || {
            self.assert_alive();
            self.address().map(|address| self.api_at(&address))
        });
        wait::until_so("the node is ready", SOON, || {
            self.assert_alive();
            api.get("/readyz").is_some_and(|answer| answer.status == 200)
        });
        self.api = Some(api);
    }

    pub fn is_ready(&self) -> bool {
        let ready =
            |address: String| self.api_at(&address).get("/readyz").is_some_and(|answer| answer.status == 200);
        self.address().is_some_and(ready)
    }

    #[track_caller]
    fn assert_alive(&mut self) {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().expect("a child can be asked"));
        assert!(ended.is_none(), "the node ended by itself: {ended:?}");
    }

    fn address_file(&self) -> PathBuf {
        self.data.join("punctual.json")
    }

    fn address(&self) -> Option<String> {
        self.written("url")
    }

    /// What it wrote down of itself when it started.
    fn written(&self, field: &str) -> Option<String> {
        let text = fs::read_to_string(self.address_file()).ok()?;
        let written: Value = serde_json::from_str(&text).ok()?;
        Some(written.get(field)?.as_str()?.to_owned())
    }

    /// The port of its Redis-protocol endpoint.
    #[track_caller]
    pub fn resp_port(&self) -> u16 {
        let address = self.resp().expect("the node has a Redis-protocol endpoint");
        let (_, port) = address.rsplit_once(':').expect("an address ends in a port");
        port.parse().expect("a port is a number")
    }

    /// The address of its Redis-protocol endpoint. `None` means it is off.
    pub fn resp(&self) -> Option<String> {
        self.written("resp")
    }

    fn api_at(&self, address: &str) -> Api {
        let pem = self.ca.as_ref().map(|file| fs::read(file).expect("the authority can be read"));
        Api::trusting(address, pem.as_deref()).with_token(self.token.clone())
    }

    pub fn api(&self) -> &Api {
        self.api.as_ref().expect("the node was ready once")
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the node is running").id()
    }

    /// kill -9: no goodbye, no flush.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let status = self.wait_for_end();
        assert_eq!(status.signal(), Some(9), "it ended before it was killed: {status}");
    }

    /// kill -9, whether it is still there or has just ended by itself.
    pub fn end(&mut self) {
        let mut child = self.child.take().expect("the node was started");
        let _ = child.kill();
        let _ = child.wait();
        end_group(child.id());
    }

    /// Asks it to stop, as an operator does.
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_for_end()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(raw(self.pid()), signal).expect("the node can be signalled");
    }

    /// Waits until the process has ended by itself.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> ExitStatus {
        // It stays ours until it has ended: if it never does, it goes when the scene is over.
        let status = wait::until("the node ends", SOON, || {
            let child = self.child.as_mut().expect("the node is running");
            child.try_wait().expect("a child can be asked")
        });
        end_group(self.pid());
        self.child = None;
        status
    }

    pub fn is_running(&mut self) -> bool {
        match &mut self.child {
            Some(child) => child.try_wait().expect("a child can be asked").is_none(),
            None => false,
        }
    }

    /// What the processes of this node have printed so far.
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Runs the command line against this node.
    #[track_caller]
    pub fn cli<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Cli {
        let mut command = Command::new(binary::path());
        command.args(words).env("PUNCTUAL_SERVER", self.api().address()).env("NO_COLOR", "1");
        if let Some(token) = &self.token {
            command.env("PUNCTUAL_TOKEN", token);
        }
        if let Some(ca) = &self.ca {
            command.env("PUNCTUAL_CA", ca);
        }
        Cli::run(&mut command)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            end_group(child.id());
            let _ = child.wait();
        }
    }
}

fn raw(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).expect("a child has a pid")
}

/// Kills every process that is left in the group.
fn end_group(leader: u32) {
    let _ = kill_process_group(raw(leader), Signal::KILL);
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub struct Cli {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Cli {
    #[track_caller]
    pub fn run(command: &mut Command) -> Cli {
        let output = command.stdin(Stdio::null()).output().expect("the binary can be started");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command line prints text");
        Cli { status: output.status, out: text(output.stdout), err: text(output.stderr) }
    }

    /// What it printed, if it went well.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.status.success(), "{self:?}");
        self.out
    }

    #[track_caller]
    pub fn json(self) -> Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("not JSON ({error}): {out}"))
    }
}
