//! Statements go by an index: none of them reads a table that grows from its beginning.

use super::super::connect::ALWAYS;
use super::super::queries::{
    chunks, deleted_jobs, history, jobs, messages, prune, queues, revisions, runs, shards, skips, uniques,
};
use super::*;

/// Those that would hurt most: everything a leader or a commit sends, and every page of a listing.
const HOT: [&str; 42] = [
    shards::FENCE,
    jobs::MOVE,
    jobs::EDIT,
    jobs::DELETE,
    revisions::DELETE,
    runs::UPDATE,
    runs::DELETE,
    history::UPDATE,
    uniques::UPDATE,
    skips::UPDATE,
    skips::NEWEST_FIRST,
    deleted_jobs::NAMED,
    jobs::OUTDATED,
    runs::GET,
    runs::LOAD,
    runs::DUE,
    jobs::DUE,
    jobs::BY_ID,
    jobs::NAMED,
    jobs::LIST,
    history::GET,
    history::NEWEST_FIRST,
    history::OF_JOB_NEWEST_FIRST,
    history::OF_KEY_OLDEST_FIRST,
    history::OF_STATUS_NEWEST_FIRST,
    runs::NEWEST_FIRST,
    runs::OF_KEY_NEWEST_FIRST,
    chunks::LIST,
    prune::OLD_AD_HOC,
    uniques::GET,
    queues::UPDATE,
    queues::DELETE,
    queues::LOAD,
    queues::NAMED,
    queues::LIST,
    messages::UPDATE,
    messages::DELETE,
    messages::FIND,
    messages::BACKLOG,
    messages::LIST,
    messages::LAST_IN_LINE,
    messages::DUE,
];

#[tokio::test]
async fn no_hot_statement_reads_a_whole_table_or_sorts_it() {
    let server = Server::shared();
    let address = server.database();
    open(&address).await;
    let client = stranger(&address, "planner").await;
    client.batch_execute(ALWAYS).await.unwrap();
    for (index, sql) in HOT.iter().enumerate() {
        client.batch_execute(&format!("PREPARE p{index} AS {sql}")).await.unwrap();
        let nulls = vec!["NULL"; client.prepare(sql).await.unwrap().params().len()].join(", ");
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE p{index} ({nulls})");
        let plan = client.query(&explain, &[]).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let is_bad = |line: &String| line.contains("Seq Scan") || line.contains("Sort");
        assert!(!plan.iter().any(is_bad), "{sql}:\n{}", plan.join("\n"));
    }
}
