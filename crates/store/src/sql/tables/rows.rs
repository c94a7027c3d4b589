//! The values of a row, in the order of its table's columns.

use std::sync::Arc;

use punctual_core::alert::Incident;
use punctual_core::ids::ShardId;
use punctual_core::name::Name;
use punctual_core::queue::{Message, QueueRecord};
use punctual_core::run::Run;
use punctual_core::search::RunTerm;
use punctual_core::statistics::{Bucket, StatisticsKey};
use punctual_core::workflow::{Approval, ApprovalKey, StepKey, StepRecord};
use serde::Serialize;

use crate::sql::value::Value;
use crate::{Result, codec, ended_key, live_key};

/// The columns of the primary key.
pub(crate) fn statistics_key(key: &StatisticsKey) -> [Value<'_>; 6] {
    let Bucket { namespace, job, period, at } = &key.bucket;
    [
        namespace.as_str().into(),
        job.as_ref().map_or("", Name::as_str).into(),
        codec::statistics_kind(*period, job.is_some()).into(),
        (*at).into(),
        key.shard.0.into(),
        key.commit.into(),
    ]
}

pub(super) fn step_key(key: &StepKey) -> [Value<'static>; 3] {
    [key.run.0.into(), key.step.into(), key.item_column().into()]
}

pub(super) fn of_step(step: &StepRecord) -> Result<[Value<'static>; 6]> {
    let [run, number, item] = step_key(&step.key);
    let (state, child) = (codec::step_state_number(step.state), step.child.map(|child| child.0));
    Ok([run, number, item, state.into(), child.into(), codec::step_body(step)?.into()])
}

pub(super) fn approval_key(key: &ApprovalKey) -> [Value<'_>; 3] {
    [key.namespace.as_str().into(), key.run.0.into(), key.step.into()]
}

/// A row whose body is JSON: its number in the shard, and the body.
pub(super) fn numbered(shard: ShardId, number: i64, of: &impl Serialize) -> Result<[Value<'static>; 3]> {
    Ok([shard.0.into(), number.into(), codec::write_json(of)?.into()])
}

pub(super) fn of_incident(shard: ShardId, incident: &Incident) -> Result<[Value<'_>; 6]> {
    let (namespace, job) = (incident.namespace.as_str(), incident.job_name().map(Name::as_str));
    let body = codec::write_json(incident)?;
    let (number, ended_at) = (incident.id.0, incident.ended_at);
    Ok([number.into(), shard.0.into(), namespace.into(), job.into(), ended_at.into(), body.into()])
}

pub(super) fn of_approval(approval: &Approval) -> [Value<'_>; 7] {
    let [namespace, run, step] = approval_key(&approval.key);
    let (job, name) = (approval.job.as_ref().map(Name::as_str), approval.step.as_str());
    [namespace, run, step, job.into(), name.into(), approval.since.into(), approval.until.into()]
}

pub(super) fn of_term(term: &RunTerm) -> [Value<'_>; 3] {
    [term.namespace.as_str().into(), term.term.as_bytes().into(), term.run.0.into()]
}

pub(super) fn live_run(run: &Run) -> Result<[Value<'_>; 9]> {
    Ok([
        live_key::of(run.id).into(),
        run.shard().0.into(),
        run.wake_at().into(),
        run.job().map(|job| job.0).into(),
        codec::status_number(run.status()).into(),
        run.namespace.as_str().into(),
        run.key.as_deref().map(str::as_bytes).into(),
        run.parent().map(|parent| parent.0).into(),
        body(run)?,
    ])
}

pub(super) fn ended_run(run: &Run) -> Result<[Value<'_>; 8]> {
    Ok([
        ended_key::of(run).into(),
        run.job().map(|job| job.0).into(),
        codec::status_number(run.status()).into(),
        run.finished_at.unwrap_or(run.created_at).into(),
        run.namespace.as_str().into(),
        run.key.as_deref().map(str::as_bytes).into(),
        run.parent().map(|parent| parent.0).into(),
        body(run)?,
    ])
}

/// Initial buffer size; most runs fit.
const BODY_BYTES: usize = 256;
/// Initial buffer size; most heads fit.
const HEAD_BYTES: usize = 32;

fn body(run: &Run) -> Result<Value<'static>> {
    let mut body = Vec::with_capacity(BODY_BYTES);
    codec::write_run(run, &mut body)?;
    Ok(body.into())
}

pub(super) fn of_queue(shard: ShardId, queue: &QueueRecord) -> Result<[Value<'_>; 11]> {
    let settings = queue.settings.as_deref().map(codec::json).transpose()?;
    Ok([
        shard.0.into(),
        queue.number.0.into(),
        queue.key.namespace.as_str().into(),
        queue.key.name.as_str().as_bytes().into(),
        queue.created_at.into(),
        queue.pause.input.into(),
        queue.pause.output.into(),
        queue.queued.into(),
        queue.messages.into(),
        queue.unacked.into(),
        settings.into(),
    ])
}

pub(crate) fn of_message(message: &Arc<Message>) -> Result<[Value<'_>; 8]> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    codec::write_head(message, &mut head)?;
    let place = message.position();
    Ok([
        message.id.shard().0.into(),
        message.id.queue.0.into(),
        place.rank.into(),
        place.number.into(),
        message.wake_at().into(),
        message.is_queued().into(),
        head.into(),
        (&message.body[..]).into(),
    ])
}
