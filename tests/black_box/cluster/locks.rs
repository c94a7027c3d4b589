//! A transaction of another program locks rows (P1 to P3; T-12): fires of these jobs are late, not skipped, and other jobs go on.
//! `HELD=60` for a minute of it.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_store::conformance::servers::{mariadb, postgres};
use punctual_tests::chance::told;
use punctual_tests::cluster::{Kept, instant, job_name, lateness, with_parameters};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Machine, Scene};
use serde_json::Value;

const JOBS: usize = 20;
const HELD_SECONDS: u64 = 8;
/// How late the jobs of other shards may be while one shard waits for the lock.
const OTHERS_LATE_MAX: Duration = Duration::from_secs(4);

/// A client of the database in the midst of a transaction; it goes with the test.
struct Hostile(Child);

impl Drop for Hostile {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Hostile {
    fn start(command: &mut Command) -> Hostile {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Hostile(command.spawn().expect("the database brings its client"))
    }

    fn is_over(&mut self) -> bool {
        self.0.try_wait().expect("a child can be asked").is_some()
    }
}

/// The table of jobs, for a client of the database.
fn table(kept: Kept) -> &'static str {
    match kept {
        Kept::Postgres => "punctual.jobs",
        Kept::MariaDb => "jobs",
    }
}

/// Locks the row of the first job for so long.
fn hold(kept: Kept, database: &str, seconds: u64) -> Hostile {
    let row = format!("namespace = 'default' AND name = '{}' FOR UPDATE", job_name(0));
    let held = format!("BEGIN; SELECT 1 FROM {} WHERE {row}", table(kept));
    match kept {
        Kept::Postgres => {
            let address = postgres::Server::shared().address(database);
            let mut client = Command::new("psql");
            client.args([
                "-XqAt",
                "-d",
                &address,
                "-c",
                &format!("{held}; SELECT pg_sleep({seconds}); COMMIT"),
            ]);
            Hostile::start(&mut client)
        }
        Kept::MariaDb => {
            let port = mariadb::Server::shared().port();
            let mut client = Command::new("mariadb");
            client.args(["--no-defaults", "-uroot", "-h127.0.0.1", &format!("-P{port}"), database]);
            client.args(["-e", &format!("{held}; SELECT SLEEP({seconds}); COMMIT")]);
            Hostile::start(&mut client)
        }
    }
}

/// The first job and all jobs of its shard: a shard waits as a whole.
fn of_its_shard(kept: Kept, database: &str) -> BTreeSet<String> {
    let jobs = table(kept);
    let shard = format!("SELECT shard FROM {jobs} WHERE name = '{}'", job_name(0));
    let query = format!("SELECT name FROM {jobs} WHERE shard = ({shard})");
    let names = match kept {
        Kept::Postgres => postgres::Server::shared().sql(database, &query),
        Kept::MariaDb => mariadb::Server::shared().sql(database, &query),
    };
    names.lines().map(str::to_owned).collect()
}

/// The latest of some fires.
#[track_caller]
fn latest<'a>(fires: impl Iterator<Item = &'a Value>) -> (Duration, &'a Value) {
    let late = fires.map(|run| (lateness(run), run));
    late.max_by_key(|(late, _)| *late).expect("something was due meanwhile")
}

fn rows_locked(kept: Kept) {
    let scene = Scene::new();
    let store = match kept {
        Kept::Postgres => postgres::Server::shared().database(),
        Kept::MariaDb => mariadb::Server::shared().database(),
    };
    let (_, database) = store.rsplit_once('/').expect("an address ends in a name");
    let mut cluster = Cluster::start(&scene, &with_parameters(&store), &[]);
    cluster.add_worker("a", &[]);
    cluster.put_jobs(JOBS);
    cluster.wait_for_fires(0, JOBS);
    let seconds = told("HELD").unwrap_or(HELD_SECONDS);
    let (from, machine) = (wait::wall_clock(), Machine::watched());
    let mut hostile = hold(kept, database, seconds);
    let within = Duration::from_secs(seconds) + SOON;
    wait::until_so("the transaction is over", within, || hostile.is_over());
    let (through, taken) = (wait::wall_clock(), machine.taken());
    assert!(through.since(from) >= Duration::from_secs(seconds), "nothing was held");
    let export = cluster.verified(&scene, 0, Duration::ZERO);
    let due = |run: &&Value| instant(&run["due_at"]) > from && instant(&run["due_at"]) <= through;
    let of_shard = of_its_shard(kept, database);
    assert!(of_shard.contains(&job_name(0)) && of_shard.len() < JOBS, "{of_shard:?}");
    let shares = |run: &&Value| run["job"].as_str().is_some_and(|job| of_shard.contains(job));
    let (held, _) = latest(export.fires(&job_name(0)).into_iter().filter(due));
    let (others, run) = latest(export.all_fires().filter(due).filter(|run| !shares(run)));
    println!("{kept:?}: held {seconds} s, what was held {held:?} late, the others {others:?}");
    assert!(held > Duration::from_secs(seconds / 2), "it was not held: {held:?}");
    assert!(export.skips(&job_name(0)).is_empty(), "late, not skipped");
    assert!(others < OTHERS_LATE_MAX + taken, "{others:?} late: {run}");
}

#[test]
fn locked_rows_in_postgresql_delay_only_their_own_jobs() {
    rows_locked(Kept::Postgres);
}

#[test]
fn locked_rows_in_mariadb_delay_only_their_own_jobs() {
    rows_locked(Kept::MariaDb);
}
