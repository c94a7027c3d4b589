//! What people decide on a running workflow: approve, reject, skip or cancel a step, pause or resume the whole.

use punctual_core::command::{ActOnSteps, Refusal, StepsAct};
use punctual_core::ids::RunId;
use punctual_core::job::Definition;
use punctual_core::name::Name;
use punctual_core::run::{Cause, Event, Run};
use punctual_core::workflow::{ByHand, Skip, State, StepKey, StepReason, StepRecord, Work};

use super::number;
use crate::Shard;
use crate::event::Context;
use crate::intake::{Reply, ended_already, refused};

/// What a step does, as far as a decision depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// It is not decided, or decided and not started.
    Open,
    Approval,
    Waits,
    Runs,
    Ended(State),
}

impl Shard {
    pub(crate) fn act_on_steps(&mut self, ask: ActOnSteps, cx: &mut Context<'_>) -> Reply {
        let ActOnSteps { namespace, run, act, by, comment } = ask;
        let Some(live) = self.runs.get(&run).filter(|live| live.run.namespace == namespace) else {
            let record = self.record(&namespace, run).ok_or(Refusal::NoSuchRun(run))?;
            may_act(&record.run, &record.definition, &act)?;
            let has_ended = record.run.status().is_terminal();
            return Err(if has_ended { ended_already(&record.run) } else { refused(&record.run, NOT_BEGUN) });
        };
        may_act(&live.run, &live.definition, &act)?;
        if !self.flows.contains_key(&run) {
            return Err(refused(&live.run, NOT_BEGUN));
        }
        let by_hand = ByHand { by, at: cx.now, comment };
        match act {
            StepsAct::Pause => self.pause_steps(run, by_hand, cx)?,
            StepsAct::Resume => self.resume_steps(run, by_hand, cx)?,
            StepsAct::Approve(step) => self.settle_approval(run, &step, true, by_hand, cx)?,
            StepsAct::Reject(step) => self.settle_approval(run, &step, false, by_hand, cx)?,
            StepsAct::Skip(step) => self.skip_step(run, &step, by_hand, cx)?,
            StepsAct::Cancel(step) => self.cancel_step(run, &step, by_hand, cx)?,
        }
        self.as_it_is(&namespace, run)
    }

    fn pause_steps(&mut self, run: RunId, by_hand: ByHand, cx: &mut Context<'_>) -> Result<(), Refusal> {
        let Some(live) = self.runs.get(&run) else { return Ok(()) };
        if live.run.is_paused() {
            return Err(refused(&live.run, "it is paused already"));
        }
        if live.run.cancelling().is_some() {
            return Err(refused(&live.run, "it is being stopped already"));
        }
        self.transition(run, Event::Paused(by_hand), cx);
        Ok(())
    }

    fn resume_steps(&mut self, run: RunId, by_hand: ByHand, cx: &mut Context<'_>) -> Result<(), Refusal> {
        let Some(live) = self.runs.get(&run) else { return Ok(()) };
        if !live.run.is_paused() {
            return Err(refused(&live.run, "it is not paused"));
        }
        self.transition(run, Event::Resumed(by_hand), cx);
        self.decide_again(run);
        Ok(())
    }

    fn settle_approval(
        &mut self,
        run: RunId,
        step: &Name,
        is_approved: bool,
        by_hand: ByHand,
        cx: &Context<'_>,
    ) -> Result<(), Refusal> {
        let (key, doing) = self.doing(run, step)?;
        if doing != Doing::Approval {
            let hint = "only an `approve` step that has started can be approved or rejected";
            return Err(wrong_step(step, doing, hint));
        }
        let (state, reason) = match is_approved {
            true => (State::Succeeded, StepReason::Approved),
            false => (State::Failed, StepReason::Rejected),
        };
        self.end_step(key, cx, |record| {
            record.end(state, Some(reason), cx.now);
            if !is_approved {
                record.error = by_hand.told(reason.as_str()).into();
            }
            record.by_hand = Some(Box::new(by_hand));
        });
        Ok(())
    }

    fn skip_step(
        &mut self,
        run: RunId,
        step: &Name,
        by_hand: ByHand,
        cx: &Context<'_>,
    ) -> Result<(), Refusal> {
        let (key, doing) = self.doing(run, step)?;
        let by_hand = Some(Box::new(by_hand));
        match doing {
            Doing::Open => {
                self.write_step(StepRecord { by_hand, ..StepRecord::skipped(key, Skip::ByHand, cx.now) });
                if let Some(flow) = self.flows.get_mut(&run) {
                    flow.to_start.retain(|waiting| *waiting != key.step);
                }
                self.count_end(key, State::Skipped, cx);
            }
            Doing::Approval | Doing::Waits => self.end_step(key, cx, |record| {
                record.end(State::Skipped, Some(StepReason::Skipped(Skip::ByHand)), cx.now);
                record.by_hand = by_hand;
            }),
            Doing::Runs => return Err(wrong_step(step, doing, "it has started; cancel it instead")),
            Doing::Ended(_) => return Err(wrong_step(step, doing, "it has ended already")),
        }
        Ok(())
    }

    fn cancel_step(
        &mut self,
        run: RunId,
        step: &Name,
        by_hand: ByHand,
        cx: &mut Context<'_>,
    ) -> Result<(), Refusal> {
        let (key, doing) = self.doing(run, step)?;
        let by_hand = Some(Box::new(by_hand));
        match doing {
            Doing::Open => return Err(wrong_step(step, doing, "it has not started; skip it instead")),
            Doing::Ended(_) => return Err(wrong_step(step, doing, "it has ended already")),
            Doing::Approval | Doing::Waits => self.end_step(key, cx, |record| {
                record.end(State::Failed, Some(StepReason::Stopped), cx.now);
                (record.error, record.by_hand) = (StepReason::Stopped.as_str().into(), by_hand);
            }),
            Doing::Runs => {
                let Some(flow) = self.flows.get_mut(&run) else { return Ok(()) };
                let Some(whole) = flow.rows.get(&(key.step, None)).cloned() else { return Ok(()) };
                let items = flow.items_of(key.step).filter(|(_, row)| row.state == State::Active);
                let children: Vec<RunId> =
                    whole.child.into_iter().chain(items.filter_map(|(_, row)| row.child)).collect();
                let is_over = flow.maps.get_mut(&key.step).is_some_and(super::flow::Mapped::cut);
                flow.to_start.retain(|waiting| *waiting != key.step);
                self.write_step(StepRecord { by_hand, ..(*whole).clone() });
                if is_over {
                    self.end_map(key, cx);
                }
                for child in children {
                    self.stop(child, Cause::User, cx);
                }
            }
        }
        Ok(())
    }

    /// The step of this name, and what it does.
    fn doing(&self, run: RunId, name: &Name) -> Result<(StepKey, Doing), Refusal> {
        let no_such_step = || Refusal::NoSuchStep { run, step: name.clone() };
        let workflow = self.runs.get(&run).and_then(|live| live.definition.workflow());
        let named =
            workflow.and_then(|workflow| workflow.all().enumerate().find(|(_, step)| step.name == *name));
        let (index, step) = named.ok_or_else(no_such_step)?;
        let flow = self.flows.get(&run).ok_or_else(no_such_step)?;
        let key = StepKey { run, step: number(index), item: None };
        let doing = match flow.rows.get(&(key.step, None)) {
            None => Doing::Open,
            Some(row) if row.state != State::Active => Doing::Ended(row.state),
            Some(_) => match step.work {
                Work::Approve(_) => Doing::Approval,
                Work::Wait(_) => Doing::Waits,
                Work::Task(_) | Work::Workflow(_) | Work::Job(_) => Doing::Runs,
            },
        };
        Ok((key, doing))
    }
}

/// A workflow takes every act. A backfill can only be paused and resumed: its steps are runs.
fn may_act(run: &Run, definition: &Definition, act: &StepsAct) -> Result<(), Refusal> {
    let may = match act {
        StepsAct::Pause | StepsAct::Resume if run.is_backfill() => true,
        _ => definition.workflow().is_some() && !run.is_backfill(),
    };
    if may { Ok(()) } else { Err(Refusal::NotAWorkflow(run.id)) }
}

const NOT_BEGUN: &str = "its steps have not started yet";

fn wrong_step(step: &Name, doing: Doing, hint: &'static str) -> Refusal {
    let state = match doing {
        Doing::Open => State::Open,
        Doing::Approval | Doing::Waits | Doing::Runs => State::Active,
        Doing::Ended(state) => state,
    };
    Refusal::WrongStep { step: step.clone(), state: state.as_str().into(), hint: hint.into() }
}
