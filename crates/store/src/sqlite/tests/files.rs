//! A folder that is opened, locked, closed, copied and opened again.

use super::*;
use crate::conformance::given::name;
use crate::sqlite::acknowledged::Acknowledged;
use crate::sqlite::folder::Folder;
use crate::{Calendars, Error, Logs, PutCalendar, Swap};
use punctual_core::command::Expect;
use punctual_core::ids::{Epoch, ShardId, Token};
use punctual_core::log;
use punctual_core::name::Namespace;
use punctual_core::schedule::calendar::{Days, Entry, Weekly};
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn what_was_committed_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let runs = commit_runs(&store, 20).await;
    let epoch = Leader::of(&store, SHARD).await.unwrap().epoch;
    drop(store);
    let store = open(dir.path()).unwrap();
    assert_eq!(stored_runs(&store).await, runs);
    let leader = Leader::of(&store, SHARD).await.unwrap();
    assert!(leader.epoch > epoch);
    assert_eq!(leader.load(&store).await.unwrap().runs.len(), 20);
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let runs = commit_runs(&store, 20).await;
    let killed = as_if_killed(dir.path());
    assert_eq!(stored_runs(&open(killed.path()).unwrap()).await, runs);
}

#[tokio::test]
async fn a_calendar_that_was_put_is_there_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let put = PutCalendar {
        namespace: Namespace::default(),
        name: name("work"),
        days: Days::new(Weekly::EVERY_DAY, [], ["12-25".parse::<Entry>().unwrap()]),
        description: String::new(),
        at: at(0),
        expect: Expect::Absent,
    };
    let Swap::Done(record) = store.put_calendar(put).await.unwrap() else { panic!("it was refused") };
    let killed = open(as_if_killed(dir.path()).path()).unwrap();
    assert_eq!(killed.calendar(&Namespace::default(), &name("work")).await.unwrap(), Some(record));
}

#[tokio::test]
async fn a_second_process_is_refused_and_told_who_holds_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let refused = refusal(dir.path());
    assert!(refused.contains("is in use by process"), "{refused}");
    assert!(refused.contains(&std::process::id().to_string()), "{refused}");
    drop(store);
    open(dir.path()).unwrap();
}

#[test]
fn the_number_of_shards_is_fixed_when_the_store_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let opened = |shards| Sqlite::open(dir.path(), Options { shards, durability: Durability::Full });
    assert!(matches!(opened(0), Err(Error::Unusable(_))));
    assert!(matches!(opened(1025), Err(Error::Unusable(_))));
    assert_eq!(opened(1024).unwrap().shards(), 1024);
    assert_eq!(opened(64).unwrap().shards(), 1024);
}

#[tokio::test]
async fn the_last_of_1024_shards_is_led_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(dir.path(), Options { shards: 1024, durability: Durability::Relaxed }).unwrap();
    let mut leader = Leader::of(&store, ShardId(1023)).await.unwrap();
    let run = ready(&leader.ad_hoc(at(0)));
    leader.insert(&store, [run_row(&run)]).await.unwrap();
    assert_eq!(leader.load(&store).await.unwrap().runs.len(), 1);
    assert_eq!(stored_runs(&store).await, [run]);
}

#[test]
fn a_store_is_private_to_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("new").join("data");
    let _store = open(&data).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for file in ["punctual.db", "punctual.db-wal", "logs.db", "acknowledged", "lock"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_backup_taken_under_load_opens_as_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let before = commit_runs(&store, 50).await;
    let output = log::Chunk {
        run: before[0].id,
        token: Token(1),
        number: 0,
        at: at(0),
        stream: log::Stream::Out,
        bytes: b"hello\n".to_vec(),
    };
    store.append_logs(vec![output.clone()]).await.unwrap();
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("backup");
    let copying = tokio::task::spawn_blocking({
        let (from, to) = (dir.path().to_owned(), to.clone());
        move || backup(&from, &to)
    });
    let (copied, after) = tokio::join!(copying, commit_runs(&store, 50));
    assert!(copied.unwrap().unwrap().bytes > 0);

    let copy = open(&to).unwrap();
    let stored = stored_runs(&copy).await;
    let all = [before.clone(), after].concat();
    assert!(stored.len() >= before.len());
    assert_eq!(stored, all[..stored.len()], "a backup is the store as it was at one commit");
    assert_eq!(copy.read_logs(before[0].id, None, 10).await.unwrap(), [output]);

    let again = backup(dir.path(), &to).unwrap_err().to_string();
    assert!(again.contains("never writes over anything"), "{again}");
}

#[tokio::test]
async fn a_restored_store_has_everything_and_refuses_every_older_token() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("data")).unwrap();
    let runs = commit_runs(&store, 5).await;
    let [copy, restored] = ["copy", "restored"].map(|name| dir.path().join(name));
    backup(&dir.path().join("data"), &copy).unwrap();
    // The store goes on and is led again and again after its backup.
    let mut epoch = Epoch(0);
    for _ in 0..50 {
        epoch = Leader::of(&store, SHARD).await.unwrap().epoch;
    }
    drop(store);
    restore(&copy, &restored, at(0)).unwrap();
    let store = open(&restored).unwrap();
    assert_eq!(stored_runs(&store).await, runs);
    let leader = Leader::of(&store, SHARD).await.unwrap();
    assert!(Token::default().next(leader.epoch) > Token::default().next(epoch), "{} {epoch}", leader.epoch);
    for lease in store.leases().await.unwrap().shards {
        assert!(lease.epoch > Epoch(1000), "{lease:?}");
    }
}

#[tokio::test]
async fn what_is_not_a_whole_store_is_neither_backed_up_nor_restored() {
    let dir = tempfile::tempdir().unwrap();
    let [data, copy, to] = ["data", "copy", "to"].map(|name| dir.path().join(name));
    let store = open(&data).unwrap();
    commit_runs(&store, 200).await;
    backup(&data, &copy).unwrap();
    let refused = |from: &Path| restore(from, &to, at(0)).unwrap_err().to_string();
    assert!(refused(&to).contains("no `punctual.db`"));
    // A page in the middle is overwritten.
    let mut bytes = fs::read(copy.join("punctual.db")).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xa5);
    fs::write(copy.join("punctual.db"), bytes).unwrap();
    let damaged = refused(&copy);
    assert!(damaged.contains("damaged"), "{damaged}");
    assert!(!to.exists(), "nothing is left behind");
    // The mark tells of more commits than the store has.
    drop(store);
    fs::write(data.join("acknowledged"), format!("{:020}\n{:020}\n", 100_000, 0)).unwrap();
    let lost = backup(&data, &to).unwrap_err().to_string();
    assert!(lost.contains("acknowledged commits are missing"), "{lost}");
    assert!(!to.exists(), "nothing is left behind");
}

#[tokio::test]
async fn a_relaxed_store_can_be_opened_in_full_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::make(dir.path()).unwrap();
    for durability in [Durability::Relaxed, Durability::Full, Durability::Relaxed, Durability::Full] {
        let store = Sqlite::open(dir.path(), options(durability)).unwrap();
        commit_runs(&store, 3).await;
        assert_eq!(Acknowledged::read(&folder).is_some(), durability == Durability::Full);
    }
}

#[tokio::test]
async fn the_bare_writer_and_the_store_write_alike() {
    let (store, _dir) = open_temporary();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let run = ready(&leader.ad_hoc(at(0)));
    let batches = Arc::new(vec![leader.batch(inserts([run_row(&run)]))]);
    let store = Arc::new(store);
    let writer = Arc::clone(&store);
    tokio::task::spawn_blocking(move || writer.commit_blocking(batches)).await.unwrap().unwrap();
    assert_eq!(stored_runs(&store).await, [run]);
    let fenced: Batch = leader.batch(Changes::default());
    assert!(matches!(store.commit(Arc::new(vec![fenced])).await, Err(Error::Fenced { .. })));
}
