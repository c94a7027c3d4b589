//! A flood of output, alone in its process: the memory that it measures is its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

#[path = "worker/rig.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use the rest")]
mod rig;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use punctual_core::attempt::End;
use punctual_core::log::RUN_BYTES_MAX;

use rig::{Counter, Rig, shell};

const GUARDIAN: Option<&str> = None;

/// The most memory that this process ever had.
fn resident_kib_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn two_hundred_mebibytes_of_output_are_cut_with_a_mark_and_cost_no_memory() {
    const PRINTED: u64 = 200 * 1024 * 1024;
    let logs = Arc::new(Counter::default());
    let mut rig = Rig::start_with(|config| config.logs = logs.clone()).await;
    let before = resident_kib_max();
    let outcome = rig.outcome_of(shell(&format!("yes | head -c {PRINTED}; echo the end"))).await;
    let grown = resident_kib_max() - before;
    assert!(grown < 8 * 1024, "{grown} KiB more");
    assert!(outcome.output.ends_with("the end"));
    assert_eq!(outcome.end, End::Succeeded);
    assert_eq!(logs.bytes.load(Relaxed), RUN_BYTES_MAX);
    let dropped = PRINTED + "the end\n".len() as u64 - RUN_BYTES_MAX;
    let cut = "output cut here: the limit of 64 MiB is reached".to_owned();
    let missing = format!("{dropped} bytes of output were not kept");
    assert_eq!(*logs.notes.lock(), [(RUN_BYTES_MAX, cut), (RUN_BYTES_MAX, missing)]);
    rig.shut_down().await;
}
