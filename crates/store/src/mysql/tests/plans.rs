//! Every row is reached by its key, however small a table is: a scan would wait for other people's rows.

use super::*;
use crate::sql::dialect::Dialect;
use crate::sql::queries::{
    approvals, history, jobs, locks, messages, queues, runs, skips, statistics, steps,
};

/// How the server would reach a table: the kind of access and the index.
fn plan(database: &str, table: &str, statement: &str) -> (String, String) {
    let told = Server::shared().sql(database, &format!("EXPLAIN {statement}"));
    let of_table = told.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let row = of_table.into_iter().find(|row| row[2] == table).unwrap_or_else(|| panic!("{table} in {told}"));
    (row[3].to_owned(), row[5].to_owned())
}

#[tokio::test]
async fn writes_go_by_the_primary_key() {
    let (store, ()) = open_for_suite().await;
    let database = &store.database;
    let rows = "(1, 0, 1, 'a', ''), (2, 0, 1, 'a', ''), (3, 0, 1, 'a', '')";
    let insert = format!("INSERT INTO runs (place, shard, status, namespace, body) VALUES {rows}");
    Server::shared().sql(database, &insert);
    let delete = "DELETE t FROM (SELECT 1 AS id UNION ALL SELECT 2 AS id) AS f STRAIGHT_JOIN runs AS t ON t.place = f.id";
    assert_eq!(plan(database, "t", delete), ("eq_ref".to_owned(), "PRIMARY".to_owned()));
    let rows = "(1, 1, 5, 1, 0, 1, '', ''), (1, 1, 5, 2, 0, 1, '', ''), (1, 1, 5, 3, 0, 1, '', '')";
    let columns = "shard, queue, rank_no, number, wake_at, queued, head, body";
    Server::shared().sql(database, &format!("INSERT INTO messages ({columns}) VALUES {rows}"));
    let delete = "DELETE t FROM (SELECT 1 AS shard, 1 AS queue, 5 AS rank_no, 1 AS number UNION ALL \
                  SELECT 1 AS shard, 1 AS queue, 5 AS rank_no, 2 AS number) AS f STRAIGHT_JOIN messages AS t \
                  ON t.shard = f.shard AND t.queue = f.queue AND t.rank_no = f.rank_no AND t.number = f.number";
    assert_eq!(plan(database, "t", delete), ("eq_ref".to_owned(), "PRIMARY".to_owned()));
    let fence = "UPDATE (SELECT 1 AS shard, 0 AS epoch UNION ALL SELECT 2 AS shard, 0 AS epoch) AS f \
                 STRAIGHT_JOIN shards AS s ON s.shard = f.shard AND s.epoch = f.epoch SET s.jobs = 1";
    assert_eq!(plan(database, "s", fence), ("eq_ref".to_owned(), "PRIMARY".to_owned()));
}

#[tokio::test]
async fn reads_of_a_leader_go_by_an_index() {
    let (store, ()) = open_for_suite().await;
    let database = &store.database;
    for (table, statement, index) in [
        ("runs", runs::LOAD, "runs_due"),
        ("runs", runs::DUE, "runs_due"),
        ("jobs", jobs::DUE, "jobs_due"),
        ("jobs", jobs::LIST, "jobs_name"),
        ("messages", messages::BACKLOG.read, "PRIMARY"),
        ("messages", messages::LIST.sizes, "PRIMARY"),
        ("messages", messages::BACKLOG_FROM_END.sizes, "PRIMARY"),
        ("messages", messages::BACKLOG_FROM_END.read, "PRIMARY"),
        ("messages", messages::DUE.read, "messages_due"),
        ("messages", messages::DUE.sizes, "messages_due"),
        ("statistics", statistics::EXPIRED, "statistics_by_time"),
        ("queues", queues::LOAD, "PRIMARY"),
        ("queues", queues::LIST, "queues_name"),
        ("skips", skips::NEWEST_FIRST, "PRIMARY"),
        ("steps", steps::LIST, "PRIMARY"),
        ("locks", locks::LIST, "locks_name"),
        ("approvals", approvals::LIST_OF_NAMESPACE, "PRIMARY"),
        ("k", runs::WALK_OF_PARENT[0], "children_of_parent"),
        ("k", history::WALK_OF_PARENT[0], "children_of_parent"),
        ("children", history::CHILDREN, "children_of_parent"),
        ("history", history::BEYOND, "history_of_job"),
        ("history", history::EXPIRED_AD_HOC, "history_of_job"),
        ("history", history::EXPIRED_OF_JOB, "history_of_job"),
    ] {
        let statement = &Dialect::Mysql.statement(statement).text;
        let statement = statement.replace("BETWEEN ? AND ?", "BETWEEN 1 AND 9").replace("LIMIT ?", "LIMIT 1");
        let statement = statement.replace("OFFSET ?", "OFFSET 1");
        let statement = statement.replace('?', "'1'");
        let (access, used) = plan(database, table, &statement);
        assert_eq!(used, index, "{statement}");
        assert!(["ref", "range"].contains(&access.as_str()), "{access}: {statement}");
    }
}
