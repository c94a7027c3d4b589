//! How long a workflow of the largest size takes to check: `cargo bench -p punctual-core --bench workflow`.
//!
//! 5,000 steps in layers of 50, each with four needs and a condition on one of them: as many steps and nearly as many
//! edges as a workflow may have. With `--bench` a time over the bar fails the run.

#![expect(clippy::unwrap_used, reason = "a benchmark may stop at the first surprise")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use punctual_core::limits::WORKFLOW_STEPS_MAX;
use punctual_core::name::Name;
use punctual_core::task::Task;
use punctual_core::workflow::{Step, Work, Workflow};

const LAYER: usize = 50;
const NEEDS: usize = 4;
const BAR: Duration = Duration::from_millis(100);

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn main() {
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let workflow = largest();
    let mut best = Duration::MAX;
    let rounds = if is_bench { 20 } else { 1 };
    for _ in 0..rounds {
        let start = Instant::now();
        black_box(&workflow).check().unwrap();
        best = best.min(start.elapsed());
    }
    println!("check of {WORKFLOW_STEPS_MAX} steps: {best:.2?}");
    assert!(!is_bench || best <= BAR, "the check took {best:.2?}, the bar is {BAR:?}");
}

fn largest() -> Workflow {
    let steps = (0..WORKFLOW_STEPS_MAX).map(|at| {
        let before = (at / LAYER * LAYER).checked_sub(LAYER);
        let needs = (0..NEEDS).filter_map(|need| before.map(|first| name(first + (at + need) % LAYER)));
        let needs: Vec<Name> = needs.collect();
        let when = needs.first().map(|needed| format!("steps.{needed}.output.rows > {at}"));
        Step { needs, when, ..Step::of(name(at), Work::Task(Task::Noop)) }
    });
    Workflow { steps: steps.collect(), finally: Vec::new(), output: None }
}

fn name(step: usize) -> Name {
    format!("s{step}").parse().unwrap()
}
