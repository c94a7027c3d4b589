//! A worker of the simulation: the driver of production, and attempts that only pretend to be executed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{End, Outcome};
use punctual_core::ids::{RunId, Token};
use punctual_core::worker::Kinds;
use punctual_worker::driver::{Driver, Input, Key, LinkId, Stop};

use crate::world::address;

/// As nodes ask for it: a third of their attempt lease.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);
/// A worker looks at its leases now and then.
const STOPS_SLACK: u64 = 500;

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) life: u32,
    pub(crate) slots: usize,
    pub(crate) driver: Driver,
    /// When it is woken next.
    pub(crate) wake: u64,
    /// It takes nothing more, and ends when it has nothing left.
    pub(crate) is_draining: bool,
    /// When it sent the newest heartbeat that a node has heard, was given something, or went on after standing still.
    pub(crate) heard: u64,
    executions: BTreeMap<RunId, Execution>,
    /// Attempts whose slot was lent for them.
    credited: BTreeSet<Key>,
}

#[derive(Debug)]
struct Execution {
    token: Token,
    started: Timestamp,
    stopped: Option<Stop>,
}

impl Worker {
    pub(crate) fn new(name: String, life: u32, slots: usize, nodes: usize) -> Self {
        let mut driver = Driver::new(slots, Kinds::ALL, HEARTBEAT);
        for node in 0..nodes {
            assert_eq!(driver.add_node(&format!("http://{}", address(node))), Some(link_to(node)));
        }
        let (executions, credited) = (BTreeMap::new(), BTreeSet::new());
        Worker { name, life, slots, driver, wake: 0, is_draining: false, heard: 0, executions, credited }
    }

    pub(crate) fn execute(&mut self, (run, token): Key, started: Timestamp) -> Result<(), String> {
        let before = self.executions.insert(run, Execution { token, started, stopped: None });
        match before {
            Some(_) => Err(format!("a worker executes two attempts of run {run} at once")),
            None if self.executions.len() > self.slots => {
                Err(format!("a worker of {} slots executes {} attempts", self.slots, self.executions.len()))
            }
            None => Ok(()),
        }
    }

    /// An execution is to stop. Gives its token.
    pub(crate) fn stop(&mut self, run: RunId, why: Stop) -> Option<Token> {
        let execution = self.executions.get_mut(&run)?;
        execution.stopped.get_or_insert(why);
        Some(execution.token)
    }

    /// An execution ends, if it has not before. Its outcome bears its token, so that one taken for another is seen.
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

    /// Once no node has heard it for a lease, the nodes may have started its attempts elsewhere: it has to stop them.
    pub(crate) fn goes_on_unheard(&self, now: u64, lease: u64) -> Result<(), String> {
        let going_on = self.executions.iter().find(|(_, execution)| execution.stopped.is_none());
        match going_on {
            Some((run, _)) if now > self.heard + lease + STOPS_SLACK => Err(format!(
                "lease: {} goes on with run {run}, and no node has heard it for {} ms",
                self.name,
                now - self.heard
            )),
            _ => Ok(()),
        }
    }

    /// An assignment came for which a slot was lent. Gives how many such slots are filled.
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
