//! What programs print: into the log as it comes, bounded, and never a reason to hang.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::attempt::End;
use punctual_core::ids::RunId;
use punctual_core::limits::{LINE_BYTES_MAX, OUTPUT_BYTES_MAX};
use punctual_core::log::{CHUNK_BYTES_MAX, Chunk, Stream};
use punctual_core::run::Cause;
use punctual_worker::{LogSink, Order};

use crate::rig::{Counter, Rig, TOKEN, shell, until};

#[tokio::test]
async fn output_is_in_the_log_while_the_program_still_runs() {
    let mut rig = Rig::start().await;
    rig.assign(1, shell("echo early; echo trouble >&2; sleep 1000")).await;
    assert_eq!(rig.logs.lines(1, 1).await, ["early"]);
    until("the complaint", || rig.logs.text(1, Stream::Err) == "trouble\n").await;
    rig.order(vec![Order::Cancel { run: RunId(1), token: TOKEN, cause: Cause::User }]).await;
    rig.finished(1).await;
    assert_eq!(rig.logs.text(1, Stream::Note), "asked to end: cancelled on request");
    rig.shut_down().await;
}

#[tokio::test]
async fn chunks_are_numbered_without_gaps_and_no_larger_than_their_maximum() {
    let mut rig = Rig::start().await;
    let lines = |bytes: u32| format!("yes | head -c {bytes}");
    let text = format!("{} & {} >&2; wait", lines(700_000), lines(500_000));
    assert_eq!(rig.outcome_of(shell(&text)).await.end, End::Succeeded);
    let chunks = rig.logs.chunks();
    let numbers: Vec<u32> = chunks.iter().map(|chunk| chunk.number).collect();
    assert_eq!(numbers, (0..u32::try_from(chunks.len()).unwrap()).collect::<Vec<u32>>());
    assert!(chunks.iter().all(|chunk| (1..=CHUNK_BYTES_MAX).contains(&chunk.bytes.len())));
    assert_eq!(rig.logs.text(1, Stream::Out).len(), 700_000);
    assert_eq!(rig.logs.text(1, Stream::Err).len(), 500_000);
    rig.shut_down().await;
}

#[tokio::test]
async fn the_result_is_the_end_of_a_long_output_with_a_mark() {
    let mut rig = Rig::start().await;
    let outcome = rig.outcome_of(shell("seq 1 300000; echo last")).await;
    assert!(outcome.output.starts_with("[…] ") && outcome.output.ends_with("\n300000\nlast"));
    assert!(outcome.output.len() <= OUTPUT_BYTES_MAX && outcome.output.len() > OUTPUT_BYTES_MAX - 20);
    rig.shut_down().await;
}

#[tokio::test]
async fn a_long_line_is_cut_in_the_log_and_whole_in_the_result() {
    let mut rig = Rig::start().await;
    let outcome = rig.outcome_of(shell("head -c 500000 /dev/zero | tr '\\0' x; echo; echo short")).await;
    assert!(*outcome.output == *("x".repeat(500_000) + "\nshort"), "{} bytes", outcome.output.len());
    let log = rig.logs.text(1, Stream::Out);
    assert!(log == "x".repeat(LINE_BYTES_MAX) + " […]\nshort\n", "{} bytes", log.len());
    let missing = 500_000 - LINE_BYTES_MAX;
    assert_eq!(rig.logs.text(1, Stream::Note), format!("{missing} bytes of output were not kept"));
    rig.shut_down().await;
}

/// Takes its time over the first chunk.
#[derive(Debug, Default)]
struct Slow(Counter);

#[async_trait]
impl LogSink for Slow {
    async fn append(&self, chunk: Chunk) {
        if chunk.number == 0 {
            tokio::time::sleep(Duration::from_millis(1200)).await;
        }
        self.0.append(chunk).await;
    }
}

#[tokio::test]
async fn a_slow_log_holds_up_the_outcome_and_loses_nothing() {
    let logs = Arc::new(Slow::default());
    let mut rig = Rig::start_with(|config| config.logs = logs.clone()).await;
    rig.outcome_of(shell("yes | head -c 100000")).await;
    assert_eq!(logs.0.bytes.load(Relaxed), 100_000);
    assert!(logs.0.notes.lock().is_empty());
    rig.shut_down().await;
}
