//! Files that are not what they were when the process ended (T-15).
//!
//! With any damage, the node starts with everything that was committed, or it refuses with a message and an exit
//! code. It never serves a part of it.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Node, Scene};
use punctual_verify::Options;
use serde_json::json;

/// A node that was killed with acknowledged work in its log, and the ids of that work.
fn killed(scene: &Scene) -> (Node, Vec<String>) {
    let mut node = scene.start();
    let ids: Vec<String> = (0..50)
        .map(|_| {
            node.api().submit(&json!({ "task": { "noop": {} } }))["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    wait::until_so("all have ended", SOON, || ids.iter().all(|id| has_ended(&node.api().run(id))));
    node.kill();
    (node, ids)
}

/// The store's main file: the largest database of the folder that is not for output.
fn main_file(node: &Node) -> PathBuf {
    let is_main = |path: &PathBuf| {
        let header = fs::File::open(path).and_then(|mut file| {
            let mut header = [0; 15];
            file.read_exact(&mut header).map(|()| header)
        });
        header.is_ok_and(|header| &header == b"SQLite format 3")
            && !path.file_name().is_some_and(|name| name.to_string_lossy().contains("log"))
    };
    let entries = fs::read_dir(node.data()).expect("the data folder can be listed");
    let found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_main).collect();
    assert_eq!(found.len(), 1, "one main file: {found:?}");
    found.into_iter().next().expect("one")
}

fn wal_of(main: &Path) -> PathBuf {
    let mut name = main.as_os_str().to_owned();
    name.push("-wal");
    let wal = PathBuf::from(name);
    assert!(fs::metadata(&wal).is_ok_and(|found| found.len() > 0), "a killed process leaves a log: {wal:?}");
    wal
}

#[track_caller]
fn check_has_everything(scene: &Scene, node: &Node, ids: &[String]) {
    let export = Export::of(node);
    for id in ids {
        let run = export.runs().get(id.as_str()).copied().cloned();
        let run = run.unwrap_or_else(|| panic!("run {id} was committed, and it serves without it"));
        assert_eq!(run["state"], "succeeded", "{run}");
    }
    export.verify(scene, node, &Options { may_be_empty: true, ..Options::default() });
}

/// Starts it, and accepts both: everything there, or a clear refusal.
#[track_caller]
fn check_all_or_refused(scene: &Scene, mut node: Node, ids: &[String]) {
    node.spawn();
    let refused = wait::until("it is ready or has ended", SOON, || {
        if node.is_running() { node.is_ready().then_some(false) } else { Some(true) }
    });
    if refused {
        check_refused(&mut node);
    } else {
        node.wait_until_ready();
        check_has_everything(scene, &node, ids);
    }
}

#[track_caller]
fn check_refused(node: &mut Node) {
    let status = node.wait_for_end();
    let said = node.printed();
    assert_eq!(
        status.code(),
        Some(1),
        "it refuses with an exit code, it does not fall over: {status}\n{said}"
    );
    assert!(said.contains("error: ") && !said.contains("panicked"), "{said}");
}

#[test]
fn a_torn_write_at_the_end_of_the_log_is_ignored() {
    let scene = Scene::new();
    let (mut node, ids) = killed(&scene);
    let wal = wal_of(&main_file(&node));
    let mut file = OpenOptions::new().append(true).open(&wal).expect("the log can be opened");
    // The beginning of a frame that was never finished.
    file.write_all(&[0xa5; 1000]).expect("the log can be written");
    drop(file);
    node.start();
    check_has_everything(&scene, &node, &ids);
}

#[test]
fn a_flipped_byte_in_the_log_is_noticed() {
    // In the last commit, and somewhere in the middle.
    for share in [100, 2] {
        let scene = Scene::new();
        let (node, ids) = killed(&scene);
        let wal = wal_of(&main_file(&node));
        let mut file = OpenOptions::new().read(true).write(true).open(&wal).expect("the log can be opened");
        let len = i64::try_from(file.metadata().expect("the log has a size").len()).expect("a small file");
        flip(&mut file, -(len / share));
        drop(file);
        check_all_or_refused(&scene, node, &ids);
    }
}

#[test]
fn a_log_cut_short_is_noticed() {
    let scene = Scene::new();
    let (node, ids) = killed(&scene);
    let wal = wal_of(&main_file(&node));
    let file = OpenOptions::new().write(true).open(&wal).expect("the log can be opened");
    let len = file.metadata().expect("the log has a size").len();
    file.set_len(len - 10).expect("the log can be cut");
    drop(file);
    check_all_or_refused(&scene, node, &ids);
}

#[test]
fn a_database_cut_in_half_is_refused() {
    let scene = Scene::new();
    let (mut node, ids) = killed(&scene);
    // A clean stop moves everything into the main file.
    node.start();
    node.stop();
    let main = main_file(&node);
    let file = OpenOptions::new().write(true).open(&main).expect("the database can be opened");
    let len = file.metadata().expect("the database has a size").len();
    file.set_len(len / 2).expect("the database can be cut");
    drop(file);
    check_all_or_refused(&scene, node, &ids);
}

#[test]
fn a_database_with_flipped_bytes_is_refused() {
    let scene = Scene::new();
    let (mut node, ids) = killed(&scene);
    node.start();
    node.stop();
    let mut file =
        OpenOptions::new().read(true).write(true).open(main_file(&node)).expect("it can be opened");
    let pages = i64::try_from(file.metadata().expect("it has a size").len() / 4096).expect("a small file");
    for page in 1..pages {
        flip(&mut file, -page * 4096 + 3);
    }
    drop(file);
    check_all_or_refused(&scene, node, &ids);
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let scene = Scene::new();
    let (mut node, _) = killed(&scene);
    node.start();
    node.stop();
    let main = main_file(&node);
    fs::write(&main, "dear diary, ".repeat(10_000)).expect("the file can be written");
    node.spawn();
    check_refused(&mut node);
}

#[test]
fn a_file_that_is_gone_is_noticed() {
    let removals: [fn(&Path); 3] = [
        |main| fs::remove_file(wal_of(main)).expect("the log can be removed"),
        |main| fs::remove_file(main).expect("the database can be removed"),
        |main| {
            fs::remove_file(wal_of(main)).expect("the log can be removed");
            fs::remove_file(main).expect("the database can be removed");
        },
    ];
    for remove in removals {
        let scene = Scene::new();
        let (node, ids) = killed(&scene);
        remove(&main_file(&node));
        check_all_or_refused(&scene, node, &ids);
    }
}

#[test]
fn a_damaged_file_is_refused_unless_its_log_is_complete() {
    let scene = Scene::new();
    let (node, ids) = killed(&scene);
    fs::write(main_file(&node), "dear diary, ".repeat(10_000)).expect("the file can be written");
    check_all_or_refused(&scene, node, &ids);
}

/// Flips the byte at a place counted from the end.
fn flip(file: &mut fs::File, place: i64) {
    let mut byte = [0];
    file.seek(SeekFrom::End(place)).expect("the file is long enough");
    file.read_exact(&mut byte).expect("the file can be read");
    file.seek(SeekFrom::End(place)).expect("the file is long enough");
    file.write_all(&[byte[0] ^ 0xff]).expect("the file can be written");
}
