//! A worker without a network of its own: it starts a (run, token) once, and never one that a newer token outdates; it
//! keeps an outcome until it is acknowledged, and stops what nobody who could settle it has heard it about for a lease.
//! Each outcome bears its token, so that one taken for another is seen.
//!
//! Who may fill its slots is decided by the lender of production.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, End, Order, Outcome, Report};
use punctual_core::ids::{RunId, Token};
use punctual_worker::Lender;

type Key = (RunId, Token);

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) life: u32,
    in_hand: BTreeMap<Key, Attempt>,
    /// The newest token of each run that was ever taken: an older one is never begun.
    newest: BTreeMap<RunId, Token>,
    /// Attempts whose assignment has used a credit: one that comes twice uses it once.
    credited: BTreeSet<Key>,
    /// What was offered again while every slot was taken.
    line: VecDeque<Assignment>,
    slots: usize,
    pub(crate) lender: Lender<usize>,
    /// When it is to look again at what it has lent.
    pub(crate) lend_wake: u64,
}

#[derive(Debug)]
struct Attempt {
    /// None: it waits for a slot.
    started: Option<Timestamp>,
    outcome: Option<Outcome>,
    cancelled: bool,
    /// Its slot was lent for it.
    credit: bool,
    /// Which node assigned it last, and when, in true time.
    owner: usize,
    since: u64,
}

/// From whom an order comes, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From {
    pub(crate) node: usize,
    pub(crate) time: u64,
    pub(crate) clock: Timestamp,
}

/// What a worker does on being given an order.
#[derive(Debug)]
pub(crate) enum Did {
    Start(Assignment),
    Stop(RunId, Token),
    Say(Vec<Report>),
    Nothing,
}

impl Worker {
    pub(crate) fn new(name: String, life: u32, slots: usize) -> Self {
        Worker {
            name,
            life,
            in_hand: BTreeMap::new(),
            newest: BTreeMap::new(),
            credited: BTreeSet::new(),
            line: VecDeque::new(),
            slots,
            lender: Lender::default(),
            lend_wake: 0,
        }
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// All it has in hand, outcomes that nobody acknowledged included.
    pub(crate) fn holding(&self) -> Vec<Key> {
        self.in_hand.keys().copied().collect()
    }

    /// What has become free, and what is called back, with whom it concerns.
    pub(crate) fn lend(&mut self, time: u64) -> Vec<(usize, Report)> {
        let room = self.slots.saturating_sub(self.unfinished().len());
        self.lender.lend(room, monotonic(time))
    }

    /// Whether an order has used a credit of its node's, be it begun or not: what came too late, what a newer token
    /// outdates and what another node has offered again meanwhile have used theirs too.
    pub(crate) fn uses_credit(&mut self, order: &Order, node: usize) -> bool {
        let Order::Assign(Assignment { run, token, again: false, .. }) = order else { return false };
        let is_first = self.credited.insert((*run, *token));
        if is_first {
            self.lender.used(&node);
        }
        is_first
    }

    fn knows(&self, assignment: &Assignment) -> bool {
        self.newest.get(&assignment.run).is_some_and(|newest| *newest >= assignment.token)
    }

    pub(crate) fn take(&mut self, order: Order, from: From) -> Did {
        match order {
            Order::Assign(assignment) => self.assign(assignment, from),
            Order::Cancel { run, token, .. } => self.cancel((run, token), from),
            Order::Acknowledge { run, token } => {
                if self.in_hand.get(&(run, token)).is_some_and(|attempt| attempt.outcome.is_some()) {
                    self.in_hand.remove(&(run, token));
                }
                Did::Nothing
            }
            Order::Resend => Did::Say(self.heartbeat()),
            Order::GaveBack { total } => {
                self.lender.gave_back(&from.node, total);
                Did::Nothing
            }
            Order::Waiting { priority, runs } => {
                self.lender.waits(&from.node, priority, runs, monotonic(from.time));
                Did::Nothing
            }
        }
    }

    fn assign(&mut self, assignment: Assignment, from: From) -> Did {
        let key = (assignment.run, assignment.token);
        if let Some(attempt) = self.in_hand.get_mut(&key) {
            (attempt.owner, attempt.since) = (from.node, from.time);
            let outcome = attempt.outcome.clone();
            return outcome.map_or(Did::Nothing, |outcome| {
                Did::Say(vec![Report::Finished { run: key.0, token: key.1, outcome }])
            });
        }
        if self.knows(&assignment) {
            return Did::Nothing;
        }
        // Whatever else it has of this run is outdated.
        self.in_hand.retain(|(run, _), _| *run != key.0);
        self.line.retain(|waiting| waiting.run != key.0);
        self.newest.insert(key.0, key.1);
        let begins = self.running() < self.slots;
        let attempt = Attempt {
            started: begins.then_some(from.clock),
            outcome: None,
            cancelled: false,
            credit: !assignment.again,
            owner: from.node,
            since: from.time,
        };
        self.in_hand.insert(key, attempt);
        if begins {
            return Did::Start(assignment);
        }
        self.line.push_back(assignment);
        Did::Nothing
    }

    fn cancel(&mut self, key: Key, from: From) -> Did {
        match self.in_hand.get_mut(&key) {
            Some(attempt) if attempt.outcome.is_none() && !attempt.cancelled => {
                attempt.cancelled = true;
                if attempt.started.is_some() {
                    return Did::Stop(key.0, key.1);
                }
                self.line.retain(|waiting| waiting.run != key.0);
                attempt.outcome = Some(Outcome::failed(from.clock, "cancelled before it began"));
                Did::Nothing
            }
            Some(_) => Did::Nothing,
            None if self.newest.get(&key.0).is_some_and(|newest| *newest >= key.1) => Did::Nothing,
            None => {
                // It never starts: whoever sends the assignment later hears that it failed.
                self.newest.insert(key.0, key.1);
                let attempt = Attempt {
                    started: Some(from.clock),
                    outcome: Some(Outcome::failed(from.clock, "cancelled before it came")),
                    cancelled: true,
                    credit: false,
                    owner: from.node,
                    since: from.time,
                };
                self.in_hand.insert(key, attempt);
                Did::Nothing
            }
        }
    }

    /// The next that waited for a slot, if there is one now.
    pub(crate) fn next_in_line(&mut self, clock: Timestamp) -> Option<Assignment> {
        if self.running() >= self.slots {
            return None;
        }
        let next = self.line.pop_front()?;
        let attempt = self.in_hand.get_mut(&(next.run, next.token))?;
        attempt.started = Some(clock);
        Some(next)
    }

    /// An attempt has ended: to whom that is to be said. None: it had ended before, or nobody wants to know.
    pub(crate) fn end(&mut self, run: RunId, token: Token, end: End) -> Option<(usize, Report)> {
        let attempt = self.in_hand.get_mut(&(run, token))?;
        if attempt.outcome.is_some() {
            return None;
        }
        let started = attempt.started?;
        let mut outcome = match end {
            End::Succeeded if !attempt.cancelled => Outcome::succeeded(started),
            End::TimedOut => Outcome { end, ..Outcome::failed(started, "stopped at its timeout") },
            _ => Outcome::failed(started, "it failed"),
        };
        outcome.output = token.to_string().into();
        attempt.outcome = Some(outcome.clone());
        Some((attempt.owner, Report::Finished { run, token, outcome }))
    }

    /// Stops what nobody has heard us about for a lease, by when a node last did. Returns how many.
    pub(crate) fn give_up(&mut self, time: u64, lease: u64, heard: impl Fn(usize) -> u64) -> u64 {
        let before = self.in_hand.len();
        self.in_hand.retain(|_, attempt| {
            attempt.outcome.is_some() || attempt.since.max(heard(attempt.owner)) + lease > time
        });
        let in_hand = &self.in_hand;
        self.line.retain(|waiting| in_hand.contains_key(&(waiting.run, waiting.token)));
        (before - self.in_hand.len()) as u64
    }

    /// A sign of life, and every outcome that nobody has acknowledged.
    pub(crate) fn heartbeat(&self) -> Vec<Report> {
        let mut reports = vec![Report::Alive { attempts: self.holding() }];
        let ended = self.in_hand.iter().filter_map(|(key, attempt)| Some((key, attempt.outcome.clone()?)));
        reports.extend(ended.map(|((run, token), outcome)| Report::Finished {
            run: *run,
            token: *token,
            outcome,
        }));
        reports
    }

    pub(crate) fn unfinished(&self) -> Vec<Key> {
        self.in_hand.iter().filter(|(_, attempt)| attempt.outcome.is_none()).map(|(key, _)| *key).collect()
    }

    fn running(&self) -> usize {
        self.in_hand.values().filter(|attempt| attempt.outcome.is_none() && attempt.started.is_some()).count()
    }

    /// Slots that were lent and are filled: of all nodes together never more than there are.
    pub(crate) fn filled(&self) -> usize {
        self.in_hand.values().filter(|attempt| attempt.outcome.is_none() && attempt.credit).count()
    }
}

/// The lender goes by a clock that nobody sets.
fn monotonic(time: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(time).unwrap_or(i64::MAX))
}
