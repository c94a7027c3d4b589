//! A simulated worker: it uses the real worker driver, and its attempts do no work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{End, Outcome};
use punctual_core::ids::{RunId, Token};
use punctual_core::progress::Progress;
use punctual_core::worker::Kinds;
use punctual_worker::driver::{Driver, Input, Key, LinkId, Stop};

/// The interval that nodes ask for: a third of the attempt lease.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);
/// How long attempts may take to end when a node drains the worker.
const DRAIN_TIME: Duration = Duration::from_secs(2);
/// A worker checks its leases only from time to time.
const STOPS_SLACK: u64 = 500;

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) life: u32,
    pub(crate) slots: usize,
    pub(crate) driver: Driver,
    /// The time of its next wake-up.
    pub(crate) wake: u64,
    /// The worker accepts no more attempts, and ends when all its attempts have ended.
    pub(crate) is_draining: bool,
    /// A node has told the worker to accept no more attempts.
    pub(crate) is_drained: bool,
    /// Its time to drain is over: it has stopped its attempts.
    pub(crate) is_stopping: bool,
    /// The latest of: when it sent the newest heartbeat that reached a node, when it received an order, when its pause
    /// ended.
    pub(crate) heard: u64,
    executions: BTreeMap<RunId, Execution>,
    /// Attempts that used a credit.
    credited: BTreeSet<Key>,
}

#[derive(Debug)]
struct Execution {
    token: Token,
    started: Timestamp,
    stopped: Option<Stop>,
    /// It ignores that it was told to stop.
    is_stuck: bool,
    /// The step in the checkpoint that it continues from.
    from: u64,
    /// The steps done since. The report of each has its number.
    steps: u64,
}

impl Execution {
    /// The report of the newest step.
    fn report(&self) -> Progress {
        let checkpoint = Some((self.from + self.steps).to_string().into());
        Progress { checkpoint, seq: Some(self.steps), ..Progress::default() }
    }
}

impl Worker {
    /// A new process of a worker that knows the nodes at these addresses.
    pub(crate) fn new(name: String, life: u32, slots: usize, nodes: impl Iterator<Item = String>) -> Self {
        let mut driver = Driver::new(slots, Kinds::ALL, HEARTBEAT).with_drain_time(DRAIN_TIME);
        for (node, address) in nodes.enumerate() {
            assert_eq!(driver.add_node(&format!("http://{address}")), Some(link_to(node)));
        }
        let (executions, credited) = (BTreeMap::new(), BTreeSet::new());
        Worker {
            name,
            life,
            slots,
            driver,
            wake: 0,
            is_draining: false,
            is_drained: false,
            is_stopping: false,
            heard: 0,
            executions,
            credited,
        }
    }

    /// Begins an execution that continues after the step `from`.
    pub(crate) fn execute(&mut self, (run, token): Key, started: Timestamp, from: u64) -> Result<(), String> {
        let execution = Execution { token, started, stopped: None, is_stuck: false, from, steps: 0 };
        match self.executions.insert(run, execution) {
            Some(_) => Err(format!("a worker executes two attempts of run {run} at once")),
            None if self.executions.len() > self.slots => {
                Err(format!("a worker of {} slots executes {} attempts", self.slots, self.executions.len()))
            }
            None => Ok(()),
        }
    }

    /// Does the next step of an execution. Returns the reports of the step before, if there was one, and of this step.
    pub(crate) fn next_step(&mut self, run: RunId, token: Token) -> Option<(Option<Progress>, Progress)> {
        let execution = self.executions.get_mut(&run).filter(|execution| execution.token == token)?;
        let before = (execution.steps > 0).then(|| execution.report());
        execution.steps += 1;
        Some((before, execution.report()))
    }

    /// The step of the report with this number, which is stored.
    pub(crate) fn saved(&self, run: RunId, seq: u64) -> Option<u64> {
        self.executions.get(&run).map(|execution| execution.from + seq)
    }

    /// Asks an execution to stop. Returns its token.
    pub(crate) fn stop(&mut self, run: RunId, why: Stop, is_stuck: bool) -> Option<Token> {
        let execution = self.executions.get_mut(&run)?;
        execution.stopped.get_or_insert(why);
        execution.is_stuck |= is_stuck;
        Some(execution.token)
    }

    /// The attempt of a run that it executes, unless that is given up or ignores its stop.
    pub(crate) fn executes(&self, run: RunId) -> Option<Token> {
        let execution = self.executions.get(&run)?;
        (execution.stopped != Some(Stop::Unheard) && !execution.is_stuck).then_some(execution.token)
    }

    /// Ends an execution that has not ended yet. Its outcome contains the token, so that a mix-up of attempts is found.
    pub(crate) fn end(&mut self, run: RunId, token: Token, end: End) -> Option<Input> {
        self.executions.get(&run).filter(|execution| execution.token == token)?;
        let Execution { started, stopped, .. } = self.executions.remove(&run)?;
        let mut outcome = match end {
            End::Succeeded if stopped.is_none() => Outcome::succeeded(started),
            End::TimedOut => Outcome { end, ..Outcome::failed(started, "stopped at its timeout") },
            _ => Outcome::failed(started, "it failed"),
        };
        outcome.output = token.to_string().into();
        Some(Input::Ended { run, outcome, stopped })
    }

    pub(crate) fn executed(&self) -> Vec<Key> {
        self.executions.iter().map(|(run, execution)| (*run, execution.token)).collect()
    }

    /// Fails if the worker still executes an attempt although no node has heard from it for a lease: the nodes may have
    /// started the attempt elsewhere.
    pub(crate) fn check_lease(&self, now: u64, lease: u64) -> Result<(), String> {
        let going_on = self.executions.iter().find(|(_, execution)| execution.stopped.is_none());
        match going_on {
            Some((run, _)) if now > self.heard + lease + STOPS_SLACK => Err(format!(
                "lease: {} still executes run {run}, and no node has heard from it for {} ms",
                self.name,
                now - self.heard
            )),
            _ => Ok(()),
        }
    }

    /// An assignment that used a credit has arrived. Returns the number of slots in use.
    pub(crate) fn credit(&mut self, key: Key) -> usize {
        self.credited.insert(key);
        let unfinished: BTreeSet<Key> = self.driver.unfinished().into_iter().collect();
        self.credited.retain(|key| unfinished.contains(key));
        self.credited.len()
    }
}

/// The link of every worker to a node.
pub(crate) fn link_to(node: usize) -> LinkId {
    LinkId(u32::try_from(node + 1).unwrap_or(u32::MAX))
}

pub(crate) fn node_of(link: LinkId) -> usize {
    link.0 as usize - 1
}

/// The step of a checkpoint; zero if there is none.
pub(crate) fn step_of(checkpoint: Option<&str>) -> u64 {
    checkpoint.and_then(|json| json.parse().ok()).unwrap_or(0)
}
