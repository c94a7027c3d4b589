//! Workflows of every shape, chosen at random.

use std::time::Duration;

use punctual_core::command::StepsAct;
use punctual_core::name::Name;
use punctual_core::retry::Retry;
use punctual_core::task::Task;
use punctual_core::workflow::{EventWait, Map, RetryFrom, Rule, Step, Wait, Work, Workflow};

use crate::dice::Dice;
use crate::workload;

const RULES: [Rule; 8] = [
    Rule::AllSucceeded,
    Rule::AllSucceeded,
    Rule::AllSucceeded,
    Rule::AllSucceeded,
    Rule::AnySucceeded,
    Rule::AllDone,
    Rule::AnyFailed,
    Rule::NoneFailed,
];

pub(crate) fn workflow(dice: &mut Dice) -> Workflow {
    let (steps, finally) = (1 + dice.below(6), if dice.one_in(2) { 1 + dice.below(2) } else { 0 });
    of_steps(dice, steps, finally, true)
}

fn of_steps(dice: &mut Dice, steps: u64, finally: u64, may_nest: bool) -> Workflow {
    let all: Vec<Step> = (0..steps + finally).map(|at| step(dice, at, may_nest)).collect();
    let (first, last) = all.split_at(usize::try_from(steps).unwrap_or(0));
    let output = dice.one_in(2).then(|| "[steps.s0.state, steps.s0.output]".to_owned());
    Workflow { steps: first.to_vec(), finally: last.to_vec(), output }
}

/// What a person decides on a step of some workflow.
pub(crate) fn act(dice: &mut Dice) -> StepsAct {
    let step = name(dice.below(8));
    match dice.below(9) {
        0 | 1 => StepsAct::Approve(step),
        2 => StepsAct::Reject(step),
        3 => StepsAct::Skip(step),
        4..=6 => StepsAct::Pause,
        7 => StepsAct::Resume,
        _ => StepsAct::Cancel(step),
    }
}

/// Where a retry begins. `None` means that the whole run is tried again.
pub(crate) fn retry_from(dice: &mut Dice) -> Option<RetryFrom> {
    match dice.below(4) {
        0 => None,
        1 => Some(RetryFrom::Steps(vec![name(dice.below(4))])),
        _ => Some(RetryFrom::Failed),
    }
}

fn name(at: u64) -> Name {
    format!("s{at}").parse().expect("the name of a step is a name")
}

/// A step that may need any of the steps before it.
fn step(dice: &mut Dice, at: u64, may_nest: bool) -> Step {
    let mut needs: Vec<u64> = (0..at).filter(|_| dice.one_in(2)).collect();
    needs.truncate(3);
    let mut step = Step::of(name(at), Work::Task(Task::Shell("true".to_owned())));
    let span = Duration::from_millis(1 + dice.below(8_000));
    match dice.below(15) {
        0 => step.work = Work::Wait(Wait::For(span)),
        1 => step.work = Work::Wait(Wait::Until("{{ due | plus('2s') }}".to_owned())),
        2 => step.work = Work::Approve(Some(span)),
        3 if may_nest => step.work = Work::Workflow(Box::new(of_steps(dice, 2, 1, false))),
        4 if dice.one_in(2) => step.work = Work::Job(workload::name(0)),
        4 => step.when = Some("false".to_owned()),
        5 => step.when = Some("params.nothing".to_owned()),
        6 if !needs.is_empty() => step.when = Some(format!("steps.s{}.failed == 0", needs[0])),
        13 => {
            let event = EventWait { name: workload::event_name(dice), key: None, within: Some(span * 6) };
            step.work = Work::Wait(Wait::Event(Box::new(event)));
        }
        7..=9 => {
            let items = vec!["7"; usize::try_from(dice.below(6)).unwrap_or(0)].join(", ");
            let parallel = dice.one_in(2).then(|| u32::try_from(1 + dice.below(2)).unwrap_or(1));
            step.map = Some(Box::new(Map { over: format!("[{items}]"), parallel }));
        }
        _ => {}
    }
    if matches!(step.work, Work::Task(_)) {
        let attempts = u32::try_from(1 + dice.below(2)).unwrap_or(1);
        step.policies.retry = Some(Box::new(Retry { attempts, delay: span, ..Retry::default() }));
        step.policies.timeout = dice.one_in(4).then(|| Duration::from_millis(500 + dice.below(20_000)));
        step.policies.at_most_once = attempts == 1 && dice.one_in(3);
    }
    let rule = dice.pick(&RULES).copied().unwrap_or_default();
    step.rule = if needs.is_empty() { Rule::AllDone } else { rule };
    step.needs = needs.into_iter().map(name).collect();
    step
}
