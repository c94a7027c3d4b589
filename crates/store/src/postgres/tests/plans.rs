//! Statements go by an index: none of them reads a table that grows from its beginning.

use super::super::connect::ALWAYS;
use super::super::queries::shards::FENCE;
use super::super::writes::STATEMENTS;
use super::*;
use crate::sql::dialect::Dialect;
use crate::sql::queries::{
    approvals, chunks, deleted_jobs, history, jobs, locks, messages, queues, revisions, run_terms, runs,
    skips, statistics, steps, uniques,
};

/// Those that would hurt most: everything a leader sends, and every page of a listing.
const HOT: [&str; 57] = [
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
    revisions::GET,
    history::GET,
    history::WALK[1],
    history::WALK_OF_JOB[1],
    history::WALK_OF_KEY[0],
    history::WALK_OF_STATUS[1],
    history::NEXT_JOBS,
    history::BEYOND,
    history::EXPIRED_OF_JOB,
    runs::WALK[1],
    runs::WALK_OF_KEY[1],
    runs::WALK_WITHOUT_CHILDREN[1],
    runs::WALK_OF_PARENT[0],
    history::WALK_OF_PARENT[0],
    history::CHILDREN,
    locks::LIST,
    approvals::LIST,
    approvals::LIST_OF_NAMESPACE,
    chunks::LIST,
    chunks::NEXT_RUNS,
    chunks::OF_RUN,
    history::EXPIRED_AD_HOC,
    uniques::GET,
    run_terms::RUNS,
    run_terms::OF_RUNS,
    run_terms::DELETE,
    steps::OF_RUNS,
    steps::WHOLE_OF_RUNS,
    steps::LIST,
    steps::DELETE,
    statistics::OF_ONE,
    statistics::OF_ALL,
    statistics::EXPIRED,
    statistics::DELETE,
    queues::LOAD,
    queues::NAMED,
    queues::LIST,
    messages::FIND,
    messages::BACKLOG.limited,
    messages::LIST.limited,
    messages::BACKLOG_FROM_END.limited,
    messages::DUE.limited,
    history::DELETE,
    uniques::DELETE_EXPIRED,
    skips::DELETE,
    revisions::DELETE,
    chunks::DELETE,
];

#[tokio::test]
async fn no_hot_statement_reads_a_whole_table_or_sorts_it() {
    let server = Server::shared();
    let address = server.database();
    open(&address).await;
    let client = stranger(&address, "planner").await;
    client.batch_execute(ALWAYS).await.unwrap();
    let shared = HOT.iter().map(|sql| Dialect::Postgres.statement(sql).text.as_str());
    let writes = STATEMENTS.iter().map(String::as_str).filter(|sql| sql.starts_with("WITH"));
    for (index, sql) in shared.chain(writes).chain([FENCE]).enumerate() {
        client.batch_execute(&format!("PREPARE p{index} AS {sql}")).await.unwrap();
        let nulls = vec!["NULL"; client.prepare(sql).await.unwrap().params().len()].join(", ");
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE p{index} ({nulls})");
        let plan = client.query(&explain, &[]).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        // The recent counts are few, and statistics need all of them.
        let is_scan = |line: &String| line.contains("Seq Scan") && !line.contains("recent_counts");
        let is_bad = |line: &String| is_scan(line) || line.contains("Sort");
        assert!(!plan.iter().any(is_bad), "{sql}:\n{}", plan.join("\n"));
    }
}
