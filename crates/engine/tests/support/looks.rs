//! What a test sees of a rig: the rows, and what the world was told.

use std::sync::Arc;

use punctual_core::attempt::Order;
use punctual_core::change::{RATE_PREFIX, Row, RowKey, Skip};
use punctual_core::ids::RunId;
use punctual_core::job::Job;
use punctual_core::run::{Origin, Run, Status};
use punctual_engine::Effect;

use super::{Rig, seconds};

impl Rig {
    /// A run as the store has it.
    pub(crate) fn run(&self, id: RunId) -> Arc<Run> {
        Arc::clone(self.rows.run(id).expect("the run is stored"))
    }

    pub(crate) fn status(&self, id: RunId) -> Status {
        self.run(id).status()
    }

    pub(crate) fn all_runs(&self) -> Vec<Arc<Run>> {
        let mut runs: Vec<Arc<Run>> = self
            .rows
            .all()
            .filter_map(|row| match row {
                Row::Run(run) | Row::History(run) => Some(Arc::clone(run)),
                _ => None,
            })
            .collect();
        runs.sort_by_key(|run| run.id);
        runs
    }

    /// All runs of a job, in the order in which they were made.
    pub(crate) fn runs(&self, job: &str) -> Vec<Arc<Run>> {
        let of = |run: &Arc<Run>| matches!(&run.origin, Origin::Job { name, .. } if name.as_str() == job);
        self.all_runs().into_iter().filter(of).collect()
    }

    pub(crate) fn statuses(&self, job: &str) -> Vec<Status> {
        self.runs(job).iter().map(|run| run.status()).collect()
    }

    /// The due times of a job's runs, in seconds since the beginning.
    pub(crate) fn dues(&self, job: &str) -> Vec<i64> {
        self.runs(job).iter().map(|run| seconds(run.due)).collect()
    }

    /// Rows of rates that are not free.
    pub(crate) fn rates(&self) -> usize {
        let is_rate = |row: &&Row| matches!(row, Row::Unique(unique) if unique.key.starts_with(RATE_PREFIX));
        self.rows.all().filter(is_rate).count()
    }

    pub(crate) fn skips(&self) -> Vec<Skip> {
        self.rows
            .all()
            .filter_map(|row| match row {
                Row::Skip(skip) => Some(skip.clone()),
                _ => None,
            })
            .collect()
    }

    /// First and last due time of each range record, in seconds since the beginning.
    pub(crate) fn skipped(&self) -> Vec<(i64, i64)> {
        self.skips().iter().map(|skip| (seconds(skip.from), seconds(skip.to))).collect()
    }

    pub(crate) fn job(&self, name: &str) -> Option<Arc<Job>> {
        self.rows.all().find_map(|row| match row {
            Row::Job(job) if job.name.as_str() == name => Some(Arc::clone(job)),
            _ => None,
        })
    }

    pub(crate) fn running(&self) -> Vec<RunId> {
        let running = |run: &Arc<Run>| run.status() == Status::Running;
        self.all_runs().into_iter().filter(running).map(|run| run.id).collect()
    }

    pub(crate) fn is_dead_letter(&self, run: RunId) -> bool {
        self.rows.get(run.shard(), &RowKey::DeadLetter(run)).is_some()
    }

    pub(crate) fn orders(&self) -> Vec<Order> {
        self.effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Order { order, .. } => Some(order.clone()),
                Effect::Answer { .. } | Effect::CrossShard(_) => None,
            })
            .collect()
    }

    /// The runs given to the worker, in order.
    pub(crate) fn assigned(&self) -> Vec<RunId> {
        self.orders()
            .into_iter()
            .filter_map(|order| match order {
                Order::Assign(assignment) => Some(assignment.run),
                _ => None,
            })
            .collect()
    }

    /// The runs whose worker was told to stop.
    pub(crate) fn cancelled_orders(&self) -> Vec<RunId> {
        self.orders()
            .into_iter()
            .filter_map(|order| match order {
                Order::Cancel { run, .. } => Some(run),
                _ => None,
            })
            .collect()
    }
}
