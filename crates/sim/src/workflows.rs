//! Workflows of every shape, chosen at random.
//!
//! Split steps, keys of events and switches come from dice of their own, so that a change of them does not change which
//! workflows there are.

use std::time::Duration;

use punctual_core::command::StepsAct;
use punctual_core::job::{Route, Strategy};
use punctual_core::name::Name;
use punctual_core::retry::Retry;
use punctual_core::task::Task;
use punctual_core::workflow::{EventWait, Map, RetryFrom, Rule, Step, Switch, Wait, Work, Workflow};

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

/// The key of an event that a step waits for: runs with different due times wait for different events.
pub(crate) const EVENT_KEY: &str = "{{ due }}";

pub(crate) fn workflow(dice: &mut Dice) -> Workflow {
    let mut apart = dice.apart();
    let (steps, finally) = (1 + dice.below(6), if dice.one_in(2) { 1 + dice.below(2) } else { 0 });
    let mut workflow = of_steps(dice, steps, finally, true);
    add_shapes(&mut workflow, &mut apart);
    workflow
}

fn of_steps(dice: &mut Dice, steps: u64, finally: u64, may_nest: bool) -> Workflow {
    let all: Vec<Step> = (0..steps + finally).map(|at| step(dice, at, may_nest)).collect();
    let (first, last) = all.split_at(usize::try_from(steps).unwrap_or(0));
    let output = dice.one_in(2).then(|| "[steps.s0.state, steps.s0.output]".to_owned());
    Workflow { steps: first.to_vec(), finally: last.to_vec(), output }
}

/// Splits some steps, lets some of those that wait for an event need a key, and adds switches.
fn add_shapes(workflow: &mut Workflow, dice: &mut Dice) {
    for step in workflow.steps.iter_mut().chain(&mut workflow.finally) {
        match &mut step.work {
            Work::Task(_) if dice.one_in(5) => step.policies.route = Some(Box::new(split(dice))),
            Work::Wait(Wait::Event(event)) if dice.one_in(2) => event.key = Some(EVENT_KEY.to_owned()),
            Work::Workflow(inner) => add_shapes(inner, dice),
            _ => {}
        }
    }
    let names: Vec<Name> = workflow.all().map(|step| step.name.clone()).collect();
    for (at, step) in workflow.steps.iter_mut().enumerate() {
        if dice.one_in(3) {
            step.switch = Some(Box::new(switch(&step.name, &names[at + 1..], dice)));
        }
    }
}

fn split(dice: &mut Dice) -> Route {
    match dice.below(4) {
        0 => Route { strategy: Strategy::Broadcast, ..Route::default() },
        parts => Route { shards: u32::try_from(parts).ok(), ..Route::default() },
    }
}

/// Chooses among later steps by the state of a step.
fn switch(of: &Name, later: &[Name], dice: &mut Dice) -> Switch {
    let (mut succeeded, mut failed, mut default) = (Vec::new(), Vec::new(), Vec::new());
    for name in later {
        match dice.below(5) {
            0 | 1 => succeeded.push(name.clone()),
            2 => failed.push(name.clone()),
            3 => default.push(name.clone()),
            _ => {}
        }
    }
    let cases = vec![("succeeded".to_owned(), succeeded), ("failed".to_owned(), failed)];
    Switch { on: format!("steps.{of}.state"), cases, default }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workflow_is_valid() {
        let mut dice = Dice::new(1);
        for _ in 0..2_000 {
            let workflow = workflow(&mut dice);
            assert_eq!(workflow.check(), Ok(()), "{workflow:?}");
        }
    }
}
