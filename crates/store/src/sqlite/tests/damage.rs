//! A damaged folder: all committed work is there, or the store refuses to open. It never serves a part.

use super::*;
use crate::conformance::given::check_names_another_build;
use rusqlite::Connection;

const RUNS: i64 = 12;

/// A store that was killed with everything still in its write-ahead log.
async fn killed() -> (TempDir, Vec<Run>) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let runs = commit_runs(&store, RUNS).await;
    (as_if_killed(dir.path()), runs)
}

/// The same, with the first half of the log in the database already, so that one is newer than the other.
async fn killed_after_a_checkpoint() -> (TempDir, Vec<Run>) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let before = commit_runs(&store, RUNS).await;
    let reader = Connection::open(dir.path().join("punctual.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM runs").unwrap();
    let helper = Connection::open(dir.path().join("punctual.db")).unwrap();
    helper.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    let after = commit_runs(&store, RUNS).await;
    (as_if_killed(dir.path()), [before, after].concat())
}

/// A store that was closed, so that all of it is in the database file.
async fn closed() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    commit_runs(&store, RUNS).await;
    drop(store);
    assert!(!dir.path().join("punctual.db-wal").exists());
    dir
}

fn change(dir: &Path, file: &str, damage: impl FnOnce(&mut Vec<u8>)) {
    let path = dir.join(file);
    let mut bytes = fs::read(&path).unwrap();
    damage(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Opens what is left, and checks that it is all or nothing; true: it was opened.
async fn all_or_refused(dir: &Path, runs: &[Run], what: &str) -> bool {
    let before = contents(dir);
    match open(dir) {
        Ok(store) => {
            assert_eq!(stored_runs(&store).await, runs, "{what}: a part was served");
            true
        }
        Err(error) => {
            let error = error.to_string();
            assert_eq!(contents(dir), before, "{what}: a store that was refused was changed");
            assert!(error.contains("backup"), "{what}: the message does not say what to do: {error}");
            false
        }
    }
}

#[tokio::test]
async fn a_flipped_byte_in_the_log_is_noticed_wherever_it_is() {
    for (dir, runs) in [killed().await, killed_after_a_checkpoint().await] {
        flip_bytes(&dir, &runs).await;
    }
}

async fn flip_bytes(dir: &TempDir, runs: &[Run]) {
    let length = fs::metadata(dir.path().join("punctual.db-wal")).unwrap().len();
    let mut refused = 0;
    for position in (0..length).step_by(1511).chain([length - 1]) {
        let copy = as_if_killed(dir.path());
        change(copy.path(), "punctual.db-wal", |bytes| bytes[usize::try_from(position).unwrap()] ^= 0x40);
        let opened = all_or_refused(copy.path(), runs, &format!("a flipped byte at {position}")).await;
        refused += usize::from(!opened);
    }
    assert!(refused > 0, "no damage was ever noticed");
}

pub(super) fn contents(dir: &Path) -> [Option<Vec<u8>>; 3] {
    ["punctual.db", "punctual.db-wal", "acknowledged"].map(|file| fs::read(dir.join(file)).ok())
}

#[tokio::test]
async fn a_log_that_was_cut_off_is_noticed() {
    let (dir, runs) = killed().await;
    let length = fs::metadata(dir.path().join("punctual.db-wal")).unwrap().len();
    for kept in [0, 10, 32, 5000, length / 2, length - 4096, length - 1] {
        let copy = as_if_killed(dir.path());
        change(copy.path(), "punctual.db-wal", |bytes| bytes.truncate(usize::try_from(kept).unwrap()));
        let what = format!("a log of {kept} bytes");
        assert!(!all_or_refused(copy.path(), &runs, &what).await, "{what} was taken");
    }
    fs::remove_file(dir.path().join("punctual.db-wal")).unwrap();
    assert!(refusal(dir.path()).contains("acknowledged commits are missing"));
}

#[tokio::test]
async fn a_torn_write_that_nobody_was_told_of_is_forgotten() {
    let (dir, runs) = killed().await;
    for garbage in [1, 24, 4119, 4120, 10_000] {
        let copy = as_if_killed(dir.path());
        change(copy.path(), "punctual.db-wal", |bytes| bytes.extend(std::iter::repeat_n(0xa5, garbage)));
        let what = format!("{garbage} bytes of a torn write");
        assert!(all_or_refused(copy.path(), &runs, &what).await, "{what} made the store unusable");
    }
}

#[tokio::test]
async fn a_database_that_was_cut_off_is_refused() {
    let dir = closed().await;
    let length = fs::metadata(dir.path().join("punctual.db")).unwrap().len();
    for kept in [0, 1, 50, 100, 4095, 4096, length / 2, length - 4096, length - 1] {
        let copy = as_if_killed(dir.path());
        change(copy.path(), "punctual.db", |bytes| bytes.truncate(usize::try_from(kept).unwrap()));
        let refused = refusal(copy.path());
        assert!(refused.contains("was cut off") && refused.contains("Restore a backup"), "{kept}: {refused}");
    }
}

#[tokio::test]
async fn a_database_that_is_gone_is_not_made_anew() {
    let dir = closed().await;
    fs::remove_file(dir.path().join("punctual.db")).unwrap();
    assert!(refusal(dir.path()).contains("lost acknowledged work"));
}

#[tokio::test]
async fn the_operator_may_go_on_without_what_is_lost() {
    let (dir, runs) = killed().await;
    let length = fs::metadata(dir.path().join("punctual.db-wal")).unwrap().len();
    change(dir.path(), "punctual.db-wal", |bytes| bytes.truncate(usize::try_from(length - 1).unwrap()));
    let refused = refusal(dir.path());
    assert!(refused.contains("remove `") && refused.contains("acknowledged`"), "{refused}");
    fs::remove_file(dir.path().join("acknowledged")).unwrap();
    assert_eq!(stored_runs(&open(dir.path()).unwrap()).await, runs[..runs.len() - 1]);
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    for bytes in [
        &b"hello, I am a text file of some length, and surely no database at all ...................."[..],
        &[0; 8192],
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("punctual.db"), bytes).unwrap();
        let refused = refusal(dir.path());
        assert!(refused.contains("punctual.db") && refused.contains("damaged"), "{refused}");
    }
    let dir = closed().await;
    change(dir.path(), "punctual.db", |bytes| bytes[..16].fill(b'x'));
    assert!(refusal(dir.path()).contains("damaged"));
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused() {
    let dir = closed().await;
    let file = Connection::open(dir.path().join("punctual.db")).unwrap();
    let insert =
        "INSERT INTO schema (version, checksum) SELECT max(version) + 1, 'from the future' FROM schema";
    file.execute(insert, []).unwrap();
    drop(file);
    let refused = refusal(dir.path());
    assert!(refused.contains("newer version of Punctual"), "{refused}");
}

#[tokio::test]
async fn a_store_of_another_build_is_refused_by_name() {
    let dir = closed().await;
    let file = Connection::open(dir.path().join("punctual.db")).unwrap();
    file.execute("UPDATE schema SET checksum = 'other'", []).unwrap();
    drop(file);
    let path = dir.path().join("punctual.db");
    check_names_another_build(&refusal(dir.path()), &path.display().to_string());
}

#[tokio::test]
async fn a_database_of_another_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = Connection::open(dir.path().join("punctual.db")).unwrap();
    file.execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)").unwrap();
    drop(file);
    assert!(refusal(dir.path()).contains("not one of Punctual's"));
}

#[tokio::test]
async fn damaged_output_says_that_it_may_be_moved_away() {
    let dir = closed().await;
    change(dir.path(), "logs.db", |bytes| bytes[..16].fill(b'x'));
    let refused = refusal(dir.path());
    assert!(refused.contains("logs.db") && refused.contains("may also be moved away"), "{refused}");
    fs::remove_file(dir.path().join("logs.db")).unwrap();
    open(dir.path()).unwrap();
}
