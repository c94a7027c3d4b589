//! Where the binary under test and the example programs are.
//!
//! Cargo builds binaries for the tests of their own package only, and this is another one. So: `PUNCTUAL_BIN`
//! if someone names one; else the binary beside this test in the target folder, built first if it is not there
//! or older than its sources. `make test` builds it beforehand with the tests, and nothing is left to do.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("PUNCTUAL_BIN") {
        Some(named) => named.into(),
        None => beside_this_test("punctual", ["--bin", "punctual"]),
    })
}

/// An example program of the crate `punctual`.
pub fn example(name: &str) -> PathBuf {
    beside_this_test(&format!("examples/{name}"), ["--example", name])
}

fn beside_this_test(place: &str, target: [&str; 2]) -> PathBuf {
    // target/debug/deps/black_box-0123456789abcdef
    let test = env::current_exe().expect("a test knows where it is");
    let folder = test.parent().and_then(Path::parent).expect("a test lies in target/<profile>/deps");
    let binary = folder.join(place);
    if !is_fresh(&binary) {
        build(folder, target);
    }
    assert!(binary.is_file(), "no binary at {}; set PUNCTUAL_BIN", binary.display());
    binary
}

/// Cargo leaves a list of a binary's sources beside it, in the form of a Makefile: `binary: source source`.
fn is_fresh(binary: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    let (Some(built), Ok(list)) = (modified(binary), fs::read_to_string(binary.with_extension("d"))) else {
        return false;
    };
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources);
    // A space inside a path is written `\ `.
    let sources = sources.trim().replace("\\ ", "\0");
    sources.split(' ').all(|source| {
        let source = source.replace('\0', " ");
        modified(Path::new(&source)).is_some_and(|changed| changed <= built)
    })
}

/// Several tests may come here at once: cargo's own lock lets one build and the others find it done.
fn build(folder: &Path, target: [&str; 2]) {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg("build").args(target).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "the binary under test does not build");
}
