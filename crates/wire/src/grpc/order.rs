//! The orders of a node to a worker.
//!
//! Consecutive runs of one job share their definition, so the JSON of a task is written and parsed once for
//! all of them.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{Assignment, Order, StepValues};
use punctual_core::job::Definition;
use punctual_core::limits::{
    CHECKPOINT_BYTES_MAX, DURATION_MAX, GRACE_MAX, KEY_BYTES_MAX, PARAMS_BYTES_MAX, STEP_VALUES_BYTES_MAX,
};
use punctual_core::run::{Cause, Part, Trigger};
use punctual_core::task::{CarriedSchema, Params, Task};

use super::Malformed;
use super::attempt::{attempt, read_attempt, read_instant};
use super::v1::{self, order::Said};
use crate::job_file;

/// Writes orders.
#[derive(Debug, Default)]
pub struct OrderWriter {
    /// The last definition and its task as JSON.
    last: Option<(Arc<Definition>, Vec<u8>)>,
}

impl OrderWriter {
    pub fn write(&mut self, order: Order) -> v1::Order {
        let said = match order {
            Order::Assign(assignment) => Said::Assign(self.assignment(assignment)),
            Order::Cancel { run, token, cause } => {
                let cause = match cause {
                    Cause::User => v1::Cause::User,
                    Cause::UserNow => v1::Cause::UserNow,
                    Cause::Moved => v1::Cause::Moved,
                    Cause::Timeout => v1::Cause::Timeout,
                    Cause::Replaced => v1::Cause::Replaced,
                    Cause::JobDeleted => v1::Cause::JobDeleted,
                    Cause::Outdated => v1::Cause::Outdated,
                };
                Said::Cancel(v1::Cancel { attempt: Some(attempt(run, token)), cause: cause.into() })
            }
            Order::Acknowledge { run, token } => Said::Acknowledge(attempt(run, token)),
            Order::Resend => Said::Resend(v1::Resend {}),
            Order::Saved { run, token, seq } => {
                Said::Saved(v1::Saved { attempt: Some(attempt(run, token)), seq })
            }
            Order::GaveBack { total } => Said::GaveBack(v1::GaveBack { total }),
            Order::Waiting { priority, runs } => {
                Said::Waiting(v1::Waiting { priority: priority.map(u32::from), runs })
            }
            Order::Drain { on } => Said::Drain(v1::Drain { on }),
        };
        v1::Order { said: Some(said) }
    }

    fn assignment(&mut self, given: Assignment) -> v1::Assignment {
        let trigger = match given.trigger {
            Trigger::Schedule => v1::Trigger::Schedule,
            Trigger::Misfire => v1::Trigger::Misfire,
            Trigger::Manual => v1::Trigger::Manual,
            Trigger::Submit => v1::Trigger::Submit,
            Trigger::Retry => v1::Trigger::Retry,
            Trigger::Parent => v1::Trigger::Parent,
            Trigger::Workflow => v1::Trigger::Workflow,
            Trigger::After => v1::Trigger::After,
            Trigger::Event => v1::Trigger::Event,
            Trigger::Backfill => v1::Trigger::Backfill,
            Trigger::Ping => v1::Trigger::Ping,
        };
        v1::Assignment {
            attempt: Some(attempt(given.run, given.token)),
            number: given.attempt,
            namespace: given.namespace.as_str().to_owned(),
            job: given.job.map(|name| name.as_str().to_owned()).unwrap_or_default(),
            revision: given.revision,
            trigger: trigger.into(),
            key: given.key.map(|key| key.as_ref().to_owned()),
            due: given.due.as_millis(),
            schema: schema_of(&given.definition),
            task: self.task(given.definition),
            params: given.params.0.as_ref().to_owned(),
            lease_ms: millis(given.lease),
            grace_ms: given.grace.map(millis),
            again: given.again,
            checkpoint: given.checkpoint.map(|json| json.as_ref().to_owned()),
            attempt_key: given.attempt_key.map(|key| key.as_ref().to_owned()),
            step: given.step.map(|step| {
                let StepValues { steps, item } = *step;
                let steps = steps.map(|json| json.as_ref().to_owned());
                let (index, item) = item.map(|(index, item)| (index, item.as_ref().to_owned())).unzip();
                v1::StepValues { steps, index, item }
            }),
            shard: (given.part != Part::default())
                .then_some(v1::Shard { index: given.part.index, total: given.part.total }),
        }
    }

    fn task(&mut self, definition: Arc<Definition>) -> Vec<u8> {
        match &self.last {
            Some((known, json)) if Arc::ptr_eq(known, &definition) => json.clone(),
            _ => {
                // A task is plain data, so serializing it cannot fail.
                let json = serde_json::to_vec(&job_file::Task::of(&definition.task)).unwrap_or_default();
                self.last = Some((definition, json.clone()));
                json
            }
        }
    }
}

/// The schema that a task carries; the JSON of the task has only its name.
fn schema_of(definition: &Definition) -> Option<v1::Schema> {
    let Task::Grpc(grpc) = &definition.task else { return None };
    let carried = grpc.descriptor.as_ref()?.carried.as_ref()?;
    Some(v1::Schema { version: carried.version, set: carried.set.to_vec() })
}

fn read_step_values(given: v1::StepValues) -> Result<Box<StepValues>, Malformed> {
    let v1::StepValues { steps, index, item } = given;
    if steps.iter().chain(&item).any(|json| json.len() > STEP_VALUES_BYTES_MAX) {
        return Err(Malformed::new("step", "the values of the steps are too long"));
    }
    Ok(Box::new(StepValues { steps: steps.map(Arc::from), item: index.zip(item.map(Arc::from)) }))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Reads orders.
#[derive(Debug, Default)]
pub struct OrderReader {
    /// The last task as JSON, its schema, and its parsed form.
    last: Option<(Vec<u8>, Option<v1::Schema>, Arc<Definition>)>,
}

impl OrderReader {
    /// `None` means an order of a newer version, which this one does not know.
    pub fn read(&mut self, order: v1::Order) -> Result<Option<Order>, Malformed> {
        let Some(said) = order.said else { return Ok(None) };
        Ok(Some(match said {
            Said::Assign(assignment) => Order::Assign(self.read_assignment(assignment)?),
            Said::Cancel(cancel) => {
                let cause = match cancel.cause() {
                    v1::Cause::User => Cause::User,
                    v1::Cause::UserNow => Cause::UserNow,
                    v1::Cause::Moved => Cause::Moved,
                    v1::Cause::Timeout => Cause::Timeout,
                    v1::Cause::Replaced => Cause::Replaced,
                    v1::Cause::JobDeleted => Cause::JobDeleted,
                    // An unknown cause of a newer node: the attempt must end, and another attempt may be running.
                    v1::Cause::Outdated | v1::Cause::Unspecified => Cause::Outdated,
                };
                let (run, token) = read_attempt(cancel.attempt)?;
                Order::Cancel { run, token, cause }
            }
            Said::Acknowledge(attempt) => {
                let (run, token) = read_attempt(Some(attempt))?;
                Order::Acknowledge { run, token }
            }
            Said::Resend(v1::Resend {}) => Order::Resend,
            Said::Saved(v1::Saved { attempt, seq }) => {
                let (run, token) = read_attempt(attempt)?;
                Order::Saved { run, token, seq }
            }
            Said::GaveBack(v1::GaveBack { total }) => Order::GaveBack { total },
            Said::Waiting(v1::Waiting { priority, runs }) => {
                let priority = priority.map(|priority| u8::try_from(priority).unwrap_or(u8::MAX));
                Order::Waiting { priority, runs }
            }
            Said::Drain(v1::Drain { on }) => Order::Drain { on },
        }))
    }

    fn read_assignment(&mut self, given: v1::Assignment) -> Result<Assignment, Malformed> {
        let trigger = match given.trigger() {
            v1::Trigger::Schedule => Trigger::Schedule,
            v1::Trigger::Misfire => Trigger::Misfire,
            v1::Trigger::Manual => Trigger::Manual,
            v1::Trigger::Submit => Trigger::Submit,
            v1::Trigger::Retry => Trigger::Retry,
            v1::Trigger::Parent => Trigger::Parent,
            v1::Trigger::Workflow => Trigger::Workflow,
            v1::Trigger::After => Trigger::After,
            v1::Trigger::Event => Trigger::Event,
            v1::Trigger::Backfill => Trigger::Backfill,
            v1::Trigger::Ping => Trigger::Ping,
            v1::Trigger::Unspecified => return Err(Malformed::missing("trigger")),
        };
        let (run, token) = read_attempt(given.attempt)?;
        let namespace =
            given.namespace.parse().map_err(|error| Malformed::new("namespace", format!("{error}")))?;
        let job = match given.job.as_str() {
            "" => None,
            name => Some(name.parse().map_err(|error| Malformed::new("job", format!("{error}")))?),
        };
        if given.params.len() > PARAMS_BYTES_MAX
            || given.key.iter().chain(&given.attempt_key).any(|key| key.len() > KEY_BYTES_MAX)
        {
            return Err(Malformed::new("params", "the parameters or a key are too long"));
        }
        if given.checkpoint.as_ref().is_some_and(|json| json.len() > CHECKPOINT_BYTES_MAX) {
            return Err(Malformed::new("checkpoint", "the checkpoint is too long"));
        }
        let step = given.step.map(read_step_values).transpose()?;
        let lease = Duration::from_millis(given.lease_ms).min(DURATION_MAX);
        let due = read_instant("due", given.due)?;
        Ok(Assignment {
            run,
            token,
            attempt: given.number,
            namespace,
            job,
            revision: given.revision,
            trigger,
            key: given.key.map(Arc::from),
            due,
            late_from: due,
            definition: self.definition(given.task, given.schema)?,
            params: Params(given.params.into()),
            checkpoint: given.checkpoint.map(Arc::from),
            attempt_key: given.attempt_key.map(Arc::from),
            step,
            part: given.shard.map(|v1::Shard { index, total }| Part { index, total }).unwrap_or_default(),
            lease,
            grace: given.grace_ms.map(|grace| Duration::from_millis(grace).min(GRACE_MAX)),
            again: given.again,
        })
    }

    fn definition(
        &mut self,
        json: Vec<u8>,
        schema: Option<v1::Schema>,
    ) -> Result<Arc<Definition>, Malformed> {
        if let Some((known, its_schema, definition)) = &self.last
            && (known, its_schema) == (&json, &schema)
        {
            return Ok(Arc::clone(definition));
        }
        let malformed = |error: &dyn std::fmt::Display| Malformed::new("task", error.to_string());
        let task: job_file::Task = serde_json::from_slice(&json).map_err(|error| malformed(&error))?;
        let mut task = task.into_core().map_err(|error| malformed(&error))?;
        if let (Task::Grpc(grpc), Some(v1::Schema { version, set })) = (&mut task, &schema) {
            let carried = CarriedSchema { version: *version, set: set.as_slice().into() };
            grpc.descriptor.iter_mut().for_each(|named| named.carried = Some(carried.clone()));
        }
        let definition = Arc::new(Definition::of(task));
        self.last = Some((json, schema, Arc::clone(&definition)));
        Ok(definition)
    }
}
