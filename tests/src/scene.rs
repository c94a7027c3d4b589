//! A temporary folder, and the turn of one test.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, fs, thread};

use tempfile::TempDir;

use crate::node::Node;

/// Real processes on few cores disturb each other: one scene at a time, also under plain `cargo test`.
static TURN: Mutex<()> = Mutex::new(());

#[derive(Debug)]
pub struct Scene {
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Scene {
    #[expect(clippy::new_without_default, reason = "it takes a turn: that is nobody's default")]
    pub fn new() -> Scene {
        // A scene that failed before has let go of everything it held.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::Builder::new().prefix("punctual-").tempdir();
        Scene { folder: folder.expect("a temporary folder can be made"), _turn: turn }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the nodes of this scene keep their data.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// What every process of this scene has printed.
    pub fn log(&self) -> PathBuf {
        self.path("node.log")
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file of the scene can be written");
        path
    }

    /// A node that is not started yet.
    pub fn node(&self) -> Node {
        Node::new(self.data(), self.log())
    }

    /// A node that runs nothing itself and is ready; a worker that says nothing for so long is lost.
    pub fn start_center(&self, attempt_lease: &str) -> Node {
        let mut node = self
            .node()
            .with_env("PUNCTUAL_SLOTS", "0")
            .with_env("PUNCTUAL_ATTEMPT_LEASE", attempt_lease)
            .with_env("PUNCTUAL_DURABILITY", "relaxed");
        node.start();
        node
    }

    /// A node that is ready.
    pub fn start(&self) -> Node {
        let mut node = self.node();
        node.start();
        node
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if thread::panicking() {
            show_end_of(&self.log());
            if env::var_os("PUNCTUAL_TESTS_KEEP").is_some() {
                self.folder.disable_cleanup(true);
                eprintln!("the scene is kept in {}", self.folder.path().display());
            }
        }
    }
}

fn show_end_of(log: &Path) {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let end = &lines[lines.len().saturating_sub(40)..];
    eprintln!("--- the end of {} ---\n{}\n---", log.display(), end.join("\n"));
}
