//! Every query finds its rows by a key or an index, and needs no sorting.

use super::*;
use crate::sqlite::queries::{
    calendars, deleted_jobs, history, jobs, messages, queues, revisions, runs, skips, uniques,
};
use rusqlite::Connection;

fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&["EXPLAIN QUERY PLAN ", sql].concat()).unwrap();
    let nothing = vec![rusqlite::types::Null; statement.parameter_count()];
    let steps =
        statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3)).unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

fn check(sql: &str, by: &str) {
    let (_store, dir) = open_temporary();
    let connection = Connection::open(dir.path().join("punctual.db")).unwrap();
    let plan = plan(&connection, sql);
    assert!(plan.contains(by), "{sql}\n{plan}");
    assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
}

#[test]
fn timers_are_found_in_their_order() {
    for (sql, index) in [(jobs::DUE, "jobs_due"), (runs::DUE, "runs_due")] {
        check(sql, "MERGE (UNION ALL)");
        check(sql, &format!("INDEX {index} (shard=? AND wake_at=? AND rowid>?)"));
        check(sql, &format!("INDEX {index} (shard=? AND wake_at>?)"));
    }
}

#[test]
fn messages_are_timers_in_their_order() {
    check(messages::DUE, "MERGE (UNION ALL)");
    check(messages::DUE, "INDEX messages_due (shard=? AND wake_at=? AND number>?)");
    check(messages::DUE, "INDEX messages_due (shard=? AND wake_at>?)");
}

#[test]
fn messages_are_found_by_their_place() {
    for sql in [messages::UPDATE, messages::DELETE, messages::EXISTS, messages::FIND] {
        check(sql, "PRIMARY KEY (shard=? AND queue=? AND rank_no=? AND number=?)");
    }
    for sql in [messages::BACKLOG, messages::LIST] {
        check(sql, "PRIMARY KEY (shard=? AND queue=? AND (rank_no,number)>(?,?))");
    }
    check(messages::LAST_IN_LINE, "PRIMARY KEY (shard=? AND queue=?)");
}

#[test]
fn queues_are_found_by_number_or_name() {
    for sql in [queues::UPDATE, queues::DELETE] {
        check(sql, "PRIMARY KEY (shard=? AND number=?)");
    }
    check(queues::LOAD, "PRIMARY KEY (shard=?)");
    check(queues::NAMED, "INDEX queues_name (namespace=? AND name=?)");
    check(queues::LIST, "INDEX queues_name ((namespace,name)>(?,?))");
    check(queues::LIST_OF_NAMESPACE, "INDEX queues_name (namespace=? AND name>?)");
}

#[test]
fn runs_are_found_by_key() {
    for sql in [runs::GET, runs::LOAD, runs::UPDATE, runs::DELETE, runs::NEWEST_FIRST, runs::OLDEST_FIRST] {
        check(sql, "INTEGER PRIMARY KEY");
    }
    for sql in [history::GET, history::DELETE, history::NEWEST_FIRST, history::OLDEST_FIRST] {
        check(sql, "INTEGER PRIMARY KEY");
    }
    for sql in [history::OF_JOB_NEWEST_FIRST, history::OF_JOB_OLDEST_FIRST] {
        check(sql, "INDEX history_of_job (job=? AND rowid>? AND rowid<?)");
    }
    for sql in [history::OF_KEY_NEWEST_FIRST, history::OF_KEY_OLDEST_FIRST] {
        check(sql, "INDEX history_key (key=? AND rowid>? AND rowid<?)");
    }
    for sql in [runs::OF_KEY_NEWEST_FIRST, runs::OF_KEY_OLDEST_FIRST] {
        check(sql, "INDEX runs_key (key=? AND rowid>? AND rowid<?)");
    }
    for sql in [history::OF_STATUS_NEWEST_FIRST, history::OF_STATUS_OLDEST_FIRST] {
        check(sql, "INDEX history_unusual (status=? AND rowid>? AND rowid<?)");
    }
}

#[test]
fn jobs_are_found_by_id_or_name() {
    for sql in [jobs::GET, jobs::MOVE, jobs::UPDATE, jobs::DELETE, jobs::KEEP] {
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
fn calendars_are_found_by_name() {
    check(calendars::GET, "PRIMARY KEY (namespace=? AND name=?)");
    check(calendars::LIST, "PRIMARY KEY ((namespace,name)>(?,?))");
    check(calendars::UNSETTLED, "INDEX calendars_unsettled ((namespace,name)>(?,?))");
}

#[test]
fn what_is_old_is_found_without_looking_at_what_is_not() {
    check(history::NEXT_JOB, "INDEX history_of_job (job>?)");
    check(history::BEYOND, "INDEX history_of_job (job=?)");
    check(history::OLD_OF_JOB, "INDEX history_of_job (job=? AND rowid<?)");
    check(history::OLD_AD_HOC, "INDEX history_ad_hoc (finished_at<?)");
    check(uniques::EXPIRED, "INDEX uniques_expiry (expires_at<?)");
    check(skips::OLD, "INDEX skips_by_time (at<?)");
    check(deleted_jobs::AFTER, "INTEGER PRIMARY KEY");
    check(deleted_jobs::LIST, "INTEGER PRIMARY KEY");
    check(deleted_jobs::NAMED, "INDEX deleted_jobs_name (namespace=? AND name=? AND rowid>?)");
    check(skips::NEWEST_FIRST, "PRIMARY KEY (job=? AND (revision,from_due)<(?,?))");
    check(skips::ANY_OF_JOB, "PRIMARY KEY (job=?)");
}
