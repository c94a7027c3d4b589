//! A wall clock that can be set, by libfaketime under the process.
//!
//! Only the wall clock moves: a monotonic clock that jumps is no fault of this world.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use crate::node::Node;

#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// A clock that goes right, told through a file.
    #[track_caller]
    pub fn new(file: PathBuf) -> Clock {
        let library = find().expect("libfaketime is installed: scripts/install-deps test");
        let clock = Clock { library, file };
        clock.set(0);
        fs::write(clock.settings(), "[clock]\nlook = \"500ms\"\n")
            .expect("a file of the scene can be written");
        clock
    }

    /// From now on the wall clock is off by so many seconds, whatever it was before.
    pub fn set(&self, seconds: i64) {
        self.set_to(&format!("{seconds:+}"));
    }

    /// From now on the wall clock is ahead by so much.
    pub fn set_ahead(&self, span: Duration) {
        self.set_to(&format!("+{}", span.as_secs_f64()));
    }

    fn set_to(&self, offset: &str) {
        // Written whole and moved into place: the library may read at any moment.
        let fresh = self.file.with_extension("new");
        fs::write(&fresh, format!("{offset}\n")).expect("the clock file can be written");
        fs::rename(&fresh, &self.file).expect("the clock file can be replaced");
    }

    /// The system does not know of this clock, so it tells nobody when it is set.
    fn settings(&self) -> PathBuf {
        self.file.with_extension("toml")
    }

    /// A node that lives by this clock.
    pub fn rule(&self, node: Node) -> Node {
        node.with_env("PUNCTUAL_CONFIG", self.settings())
            .with_env("LD_PRELOAD", &self.library)
            .with_env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .with_env("FAKETIME_NO_CACHE", "1")
            .with_env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .with_env("DONT_FAKE_MONOTONIC", "1")
    }
}

fn find() -> Option<PathBuf> {
    let arch = env::consts::ARCH;
    let folders = [format!("/usr/lib/{arch}-linux-gnu/faketime"), "/usr/lib/faketime".to_owned()];
    let libraries = folders.iter().map(|folder| Path::new(folder).join("libfaketimeMT.so.1"));
    libraries.into_iter().find(|library| library.is_file())
}
