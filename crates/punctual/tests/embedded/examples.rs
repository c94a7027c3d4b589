//! The example programs do what they say.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use crate::scene::{DEADLINE, shared_store};

/// Enough to see that the two of them take turns.
const TICKS: usize = 6;

/// Where an example is; built, if that was not done together with this test, as `make test` and `cargo test` do.
fn example(name: &str) -> PathBuf {
    // target/debug/deps/embedded-0123456789abcdef
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    if program.exists() {
        return program;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "punctual", "--example", name])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.unwrap().success(), "the example `{name}` does not build");
    program
}

#[test]
fn the_first_example_settles_and_says_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(example("embedded")).arg(folder.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        said.contains("settled east for ") && said.contains("run ") && said.contains("succeeded"),
        "{said}"
    );
}

#[test]
fn two_instances_of_the_cluster_example_print_each_second_once() {
    let (program, store) = (example("embedded_cluster"), shared_store());
    let (heard, hear) = mpsc::channel();
    let seconds = DEADLINE.as_secs().to_string();
    let instances = ["a", "b"].map(|name| {
        let mut command = Command::new(&program);
        let mut instance =
            command.args([&store, name, &seconds]).stdout(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(instance.stdout.take().expect("it is piped"));
        let heard = heard.clone();
        let reader = std::thread::spawn(move || {
            // The receiver may be gone after it has read enough.
            said.lines().map_while(Result::ok).all(|line| heard.send(line).is_ok())
        });
        (instance, reader)
    });
    let mut ticks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    while ticks.len() < TICKS
        && let Ok(line) = hear.recv_timeout(DEADLINE)
    {
        if let Some((who, due)) = line.split_once(" ticks for ") {
            ticks.entry(due.to_owned()).or_default().push(who.to_owned());
        }
    }
    drop(hear);
    for (mut instance, reader) in instances {
        instance.kill().unwrap();
        instance.wait().unwrap();
        reader.join().unwrap();
    }
    assert!(ticks.len() == TICKS && ticks.values().all(|who| who.len() == 1), "{ticks:?}");
}
