//! The body of a step's row: postcard with a leading version byte, like that of a run.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::ids::RunId;
use punctual_core::workflow::{ByHand, Items, State, StepKey, StepReason, StepRecord};
use serde::{Deserialize, Serialize};

use super::{cannot_read, cannot_write};
use crate::Result;

/// The first byte of a body. A change of `StepBody` needs a new version.
const STEP_VERSION: u8 = 2;
/// The same, followed by a [`Backfill`].
const BACKFILL_VERSION: u8 = 3;

/// All that is not in columns of its own.
#[derive(Serialize, Deserialize)]
struct StepBody {
    decided_at: Timestamp,
    ended_at: Option<Timestamp>,
    until: Option<Timestamp>,
    listener: Option<i64>,
    items: Option<Items>,
    reason: Option<StepReason>,
    workers: Box<[Arc<str>]>,
    output: Option<Arc<str>>,
    error: Box<str>,
    by_hand: Option<Box<ByHand>>,
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
        ended_at: step.ended_at,
        until: step.until,
        listener: step.listener,
        items: step.items,
        reason: step.reason,
        workers: step.workers.clone(),
        output: step.output.clone(),
        error: step.error.clone(),
        by_hand: step.by_hand.clone(),
    };
    let version = if step.backfill.is_some() { BACKFILL_VERSION } else { STEP_VERSION };
    let mut bytes = postcard::to_extend(&body, vec![version]).map_err(|error| cannot_write(&error))?;
    if let Some(backfill) = &step.backfill {
        bytes = postcard::to_extend(backfill, bytes).map_err(|error| cannot_write(&error))?;
    }
    Ok(bytes)
}

pub(crate) fn read_step(
    key: StepKey,
    state: i64,
    child: Option<i64>,
    body: &[u8],
) -> Result<Arc<StepRecord>> {
    let (version, rest) = match body.split_first() {
        Some((&version @ (STEP_VERSION | BACKFILL_VERSION), rest)) => (version, rest),
        _ => return Err(cannot_read(&"a step of another version")),
    };
    let (body, rest): (StepBody, _) = postcard::take_from_bytes(rest).map_err(|error| cannot_read(&error))?;
    let backfill = match version {
        BACKFILL_VERSION => Some(postcard::from_bytes(rest).map_err(|error| cannot_read(&error))?),
        _ => None,
    };
    let StepBody { decided_at, ended_at, until, listener, items, reason, workers, output, error, by_hand } =
        body;
    let (state, child) = (step_state(state)?, child.map(RunId));
    Ok(Arc::new(StepRecord {
        key,
        state,
        child,
        decided_at,
        ended_at,
        until,
        listener,
        items,
        reason,
        workers,
        output,
        error,
        by_hand,
        backfill,
    }))
}
