//! The load: submits no-op runs and waits for them.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Command, Submit};
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::task::Task;
use punctual_node::Handle;
use tokio::task::JoinSet;

use super::data_folder::{Stopwatch, UNDER_WAY};
use crate::cli::progress;

/// Without progress for this long, the benchmark fails.
const STUCK: Duration = Duration::from_secs(30);

/// Seconds from the first submit to the last history row, with the runs spread over nodes on one store.
pub(super) async fn through(nodes: &[Handle], count: usize) -> anyhow::Result<f64> {
    let Some(first) = nodes.first() else { anyhow::bail!("there is no node to submit to") };
    let before = first.reads().stats().await?.history_runs;
    let watch = Stopwatch::start();
    submit_all(nodes, count).await?;
    ended(first, before + count as u64).await?;
    Ok(watch.seconds())
}

/// Waits until the store has this many runs in its history. Reads the store, because memory is ahead of the disk.
pub(super) async fn ended(node: &Handle, runs: u64) -> anyhow::Result<()> {
    let mut watch = Stopwatch::start();
    let mut before = 0;
    loop {
        let now = node.reads().stats().await?.history_runs;
        if now >= runs {
            return Ok(());
        }
        if now > before {
            (before, watch) = (now, Stopwatch::start());
        }
        anyhow::ensure!(node.status().failed.is_none(), "the node failed");
        anyhow::ensure!(watch.elapsed() < STUCK, "no run has ended for {} s", STUCK.as_secs());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Submits with enough concurrency to keep the commits full.
async fn submit_all(nodes: &[Handle], count: usize) -> anyhow::Result<()> {
    let definition = Arc::new(Definition::of(Task::Noop));
    let bar = progress::bar("submitting", count);
    let askers = UNDER_WAY.min(count.max(1));
    let mut tasks = JoinSet::new();
    for (asker, node) in (0..askers).zip(nodes.iter().cycle()) {
        let (node, definition, bar) = (node.clone(), Arc::clone(&definition), Arc::clone(&bar));
        let share = count / askers + usize::from(asker < count % askers);
        tasks.spawn(async move {
            for _ in 0..share {
                submit(&node, &definition).await?;
            }
            bar.inc(share as u64);
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Submits a run; it is durable when this returns.
pub(super) async fn submit(node: &Handle, definition: &Arc<Definition>) -> anyhow::Result<()> {
    submit_as(node, definition, node.spread()).await
}

/// Submits a run to the shard that `spread` selects.
pub(super) async fn submit_as(
    node: &Handle,
    definition: &Arc<Definition>,
    spread: u64,
) -> anyhow::Result<()> {
    let submit = Submit {
        namespace: Namespace::default(),
        definition: Arc::clone(definition),
        due: None,
        key: None,
        spread,
    };
    node.command(Command::Submit(submit)).await?;
    Ok(())
}
