//! The body of a step's row: postcard with a leading version byte, like that of a run.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::backfill::Backfill;
use punctual_core::ids::RunId;
use punctual_core::workflow::{ByHand, Items, State, StepKey, StepReason, StepRecord};
use serde::{Deserialize, Serialize};

use super::{cannot_read, cannot_write};
use crate::Result;

/// The first byte of a body. A change of `StepBody` needs a new version.
const STEP_VERSION: u8 = 4;

/// All that is not in columns of its own.
#[derive(Serialize, Deserialize)]
struct StepBody {
    decided_at: Timestamp,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    until: Option<Timestamp>,
    listener: Option<i64>,
    items: Option<Items>,
    reason: Option<StepReason>,
    workers: Box<[Arc<str>]>,
    output: Option<Arc<str>>,
    error: Box<str>,
    by_hand: Option<Box<ByHand>>,
    backfill: Option<Box<Backfill>>,
}

/// Part of the file format: these numbers never change.
pub(crate) fn step_state_number(state: State) -> i64 {
    match state {
        State::Open => 0,
        State::Active => 1,
        State::Succeeded => 2,
        State::Failed => 3,
        State::Skipped => 4,
    }
}

fn step_state(number: i64) -> Result<State> {
    let all = [State::Open, State::Active, State::Succeeded, State::Failed, State::Skipped];
    let found = all.into_iter().find(|state| step_state_number(*state) == number);
    found.ok_or_else(|| cannot_read(&format!("a step in state {number}")))
}

pub(crate) fn step_body(step: &StepRecord) -> Result<Vec<u8>> {
    let body = StepBody {
        decided_at: step.decided_at,
        started_at: step.started_at,
        ended_at: step.ended_at,
        until: step.until,
        listener: step.listener,
        items: step.items,
        reason: step.reason,
        workers: step.workers.clone(),
        output: step.output.clone(),
        error: step.error.clone(),
        by_hand: step.by_hand.clone(),
        backfill: step.backfill.clone(),
    };
    postcard::to_extend(&body, vec![STEP_VERSION]).map_err(|error| cannot_write(&error))
}

pub(crate) fn read_step(
    key: StepKey,
    state: i64,
    child: Option<i64>,
    body: &[u8],
) -> Result<Arc<StepRecord>> {
    let Some((&STEP_VERSION, rest)) = body.split_first() else {
        return Err(cannot_read(&"a step of another version"));
    };
    let body: StepBody = postcard::from_bytes(rest).map_err(|error| cannot_read(&error))?;
    Ok(Arc::new(StepRecord {
        key,
        state: step_state(state)?,
        child: child.map(RunId),
        decided_at: body.decided_at,
        started_at: body.started_at,
        ended_at: body.ended_at,
        until: body.until,
        listener: body.listener,
        items: body.items,
        reason: body.reason,
        workers: body.workers,
        output: body.output,
        error: body.error,
        by_hand: body.by_hand,
        backfill: body.backfill,
    }))
}
