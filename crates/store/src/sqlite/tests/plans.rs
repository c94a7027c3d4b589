//! Every query finds its rows by a key or an index, and needs no sorting.

use rusqlite::Connection;

use super::*;
use crate::sql::dialect::Dialect;
use crate::sql::queries::{
    approvals, calendars, deleted_jobs, history, jobs, locks, messages, queues, revisions, run_terms, runs,
    skips, statistics, steps, uniques,
};
use crate::sql::tables::WRITES;
use crate::sqlite::changes::STATEMENTS;
use crate::sqlite::queries as own;

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&["EXPLAIN QUERY PLAN ", sql].concat()).unwrap();
    let nothing = vec![rusqlite::types::Null; statement.parameter_count()];
    let steps =
        statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3)).unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

fn check(sql: &'static str, by: &str) {
    check_text(&Dialect::Sqlite.statement(sql).text, by);
}

fn check_text(sql: &str, by: &str) {
    let (_store, dir) = open_temporary();
    let connection = Connection::open(dir.path().join("punctual.db")).unwrap();
    let plan = plan(&connection, sql);
    assert!(plan.contains(by), "{sql}\n{plan}");
    // The recent counts are few, and statistics need all of them.
    let plan = plan.replace("SCAN recent_counts", "all recent counts");
    assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
}

#[test]
fn timers_are_found_in_their_order() {
    for (sql, index) in [(own::jobs::DUE, "jobs_due"), (own::runs::DUE, "runs_due")] {
        check(sql, "MERGE (UNION ALL)");
        check(sql, &format!("INDEX {index} (shard=? AND wake_at=? AND rowid>?)"));
        check(sql, &format!("INDEX {index} (shard=? AND wake_at>?)"));
    }
}

#[test]
fn messages_are_timers_in_their_order() {
    check(own::messages::DUE, "MERGE (UNION ALL)");
    check(own::messages::DUE, "INDEX messages_due (shard=? AND wake_at=? AND number>?)");
    check(own::messages::DUE, "INDEX messages_due (shard=? AND wake_at>?)");
}

#[test]
fn every_write_goes_by_the_primary_key() {
    for (write, (sql, _)) in WRITES.iter().zip(STATEMENTS.iter()) {
        if !sql.starts_with("INSERT") {
            let key = (0..write.table.key).map(|column| write.name(column));
            let key = match write.table.key {
                1 => "INTEGER PRIMARY KEY (rowid=?)".to_owned(),
                _ => format!("PRIMARY KEY ({}=?)", key.collect::<Vec<_>>().join("=? AND ")),
            };
            check_text(sql, &key);
        }
    }
}

#[test]
fn messages_are_found_by_their_place() {
    check(messages::FIND, "PRIMARY KEY (shard=? AND queue=? AND rank_no=? AND number=?)");
    check_text(own::messages::EXISTS, "PRIMARY KEY (shard=? AND queue=? AND rank_no=? AND number=?)");
    for sql in [messages::BACKLOG.read, messages::LIST.read] {
        check(sql, "PRIMARY KEY (shard=? AND queue=? AND (rank_no,number)>(?,?))");
    }
    check(messages::BACKLOG_FROM_END.read, "PRIMARY KEY (shard=? AND queue=?)");
}

#[test]
fn queues_are_found_by_number_or_name() {
    check(queues::LOAD, "PRIMARY KEY (shard=?)");
    check(queues::NAMED, "INDEX queues_name (namespace=? AND name=?)");
    check(queues::LIST, "INDEX queues_name ((namespace,name)>(?,?))");
    check(queues::LIST_OF_NAMESPACE, "INDEX queues_name (namespace=? AND name>?)");
}

#[test]
fn runs_are_found_by_key() {
    for sql in [runs::GET, runs::LOAD, history::GET].into_iter().chain(runs::WALK).chain(history::WALK) {
        check(sql, "INTEGER PRIMARY KEY");
    }
    for sql in history::WALK_OF_JOB {
        check(sql, "INDEX history_of_job (job=? AND rowid>? AND rowid<?)");
    }
    for sql in history::WALK_OF_KEY {
        check(sql, "INDEX history_key (run_key=? AND rowid>? AND rowid<?)");
    }
    for sql in runs::WALK_WITHOUT_CHILDREN {
        check(sql, "INTEGER PRIMARY KEY");
    }
    for sql in runs::WALK_OF_PARENT {
        check(sql, "INDEX runs_of_parent (parent=? AND rowid>? AND rowid<?)");
    }
    for sql in history::WALK_OF_PARENT {
        check(sql, "INDEX history_of_parent (parent=? AND rowid>? AND rowid<?)");
    }
    check(runs::LAST_OF_JOB, "INTEGER PRIMARY KEY");
    for sql in runs::WALK_OF_KEY {
        check(sql, "INDEX runs_key (run_key=? AND rowid>? AND rowid<?)");
    }
    for sql in history::WALK_OF_STATUS {
        check(sql, "INDEX history_unusual (status=? AND rowid>? AND rowid<?)");
    }
}

#[test]
fn jobs_are_found_by_id_or_name() {
    for sql in [jobs::BY_ID, history::KEEP] {
        check(sql, "INTEGER PRIMARY KEY");
    }
    check(jobs::NAMED, "INDEX sqlite_autoindex_jobs_1 (namespace=? AND name=?)");
    check(jobs::LIST, "INDEX sqlite_autoindex_jobs_1 ((namespace,name)>(?,?))");
    check(jobs::LIST_OF_NAMESPACE, "INDEX sqlite_autoindex_jobs_1 (namespace=? AND name>?)");
    check(jobs::LIST_OF_CALENDAR, "INDEX jobs_with_calendar (namespace=? AND name>?)");
    check(jobs::OUTDATED, "INDEX jobs_zone_data (zone_data<?)");
    check(revisions::GET, "PRIMARY KEY (job=? AND revision=?)");
    check(revisions::NEWEST_FIRST, "PRIMARY KEY (job=? AND revision<?)");
}

#[test]
fn statistics_are_found_by_job_or_by_time() {
    check(
        statistics::OF_ONE,
        "PRIMARY KEY (namespace=? AND job=? AND kind=? AND bucket_at>? AND bucket_at<?)",
    );
    check(statistics::OF_ALL, "INDEX statistics_by_time (kind=? AND bucket_at>? AND bucket_at<?)");
    check(statistics::RECENT, "PRIMARY KEY (shard=?)");
}

#[test]
fn terms_are_found_by_their_beginning_or_by_their_run() {
    check(run_terms::RUNS, "PRIMARY KEY (namespace=? AND term>? AND term<?)");
    check(run_terms::OF_RUNS, "INDEX run_terms_of_run (run=?)");
    check(run_terms::DELETE, "INDEX run_terms_of_run (run=?)");
}

#[test]
fn steps_are_found_by_their_run() {
    check(steps::OF_RUNS, "PRIMARY KEY (run=?)");
    check(steps::WHOLE_OF_RUNS, "PRIMARY KEY (run=?)");
    check(steps::LIST, "PRIMARY KEY (run=? AND (step_no,item)>(?,?))");
    check(steps::DELETE, "PRIMARY KEY (run=?)");
    check(approvals::LIST, "PRIMARY KEY (namespace>?)");
    check(approvals::LIST_OF_NAMESPACE, "PRIMARY KEY (namespace=? AND (run,step_no)>(?,?))");
}

#[test]
fn locks_are_found_by_shard_or_by_name() {
    check(locks::LOAD, "PRIMARY KEY (shard=?)");
    check(locks::LIST, "INDEX locks_name (namespace=? AND name>?)");
}

#[test]
fn calendars_are_found_by_name() {
    check(calendars::GET, "PRIMARY KEY (namespace=? AND name=?)");
    check(calendars::LIST, "PRIMARY KEY ((namespace,name)>(?,?))");
    check(calendars::UNSETTLED, "INDEX calendars_unsettled ((namespace,name)>(?,?))");
}

#[test]
fn expired_rows_are_found_without_reading_the_others() {
    check(history::NEXT_JOB, "INDEX history_of_job (job>?)");
    check(history::BEYOND, "INDEX history_of_job (job=? AND rowid>?)");
    check(history::EXPIRED_OF_JOB, "INDEX history_of_job (job=? AND rowid>? AND rowid<?)");
    check(history::CHILDREN, "INDEX history_of_parent (parent=?)");
    check(history::EXPIRED_AD_HOC, "INDEX history_ad_hoc (finished_at<?)");
    check(uniques::EXPIRED, "INDEX uniques_expiry (expires_at<?)");
    check(skips::EXPIRED, "INDEX skips_by_time (made_at<?)");
    check(statistics::EXPIRED, "INDEX statistics_by_time (kind=? AND bucket_at<?)");
    check(deleted_jobs::NEEDED, "INTEGER PRIMARY KEY");
    check(deleted_jobs::NEEDED, "INDEX history_of_job (job=?)");
    check(deleted_jobs::LIST, "INTEGER PRIMARY KEY");
    check(deleted_jobs::NAMED, "INDEX deleted_jobs_name (namespace=? AND name=? AND rowid>?)");
    check(skips::NEWEST_FIRST, "PRIMARY KEY (job=? AND (revision,from_due)<(?,?))");
}
