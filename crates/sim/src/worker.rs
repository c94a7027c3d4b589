//! A worker without a network: it starts a (run, token) once, keeps an outcome until it is acknowledged, and dies with
//! its node. Each outcome bears its token, so that one taken for another is seen.

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, End, Order, Outcome, Report};
use punctual_core::ids::{RunId, Token};
use punctual_worker::Lender;

#[derive(Debug)]
pub(crate) struct Worker {
    in_hand: BTreeMap<(RunId, Token), Attempt>,
    slots: usize,
    lender: Lender<()>,
}

#[derive(Debug)]
struct Attempt {
    started: Timestamp,
    outcome: Option<Outcome>,
    cancelled: bool,
}

/// What a worker does on being given an order.
#[derive(Debug)]
pub(crate) enum Did {
    Start(Assignment),
    Stop(RunId, Token),
    Say(Vec<Report>),
    Nothing,
    /// It was given something that nothing was lent for.
    Object(String),
}

impl Worker {
    pub(crate) fn new(slots: usize) -> Self {
        let mut worker = Worker { in_hand: BTreeMap::new(), slots, lender: Lender::default() };
        worker.lender.joined(());
        worker
    }

    /// A new link to the node; all it holds is named, and nothing is lent yet.
    pub(crate) fn link_again(&mut self) -> Vec<(RunId, Token)> {
        self.lender.joined(());
        self.in_hand.keys().copied().collect()
    }

    /// Slots that have become free.
    pub(crate) fn lend(&mut self, now: Timestamp) -> Vec<Report> {
        let room = self.slots.saturating_sub(self.unfinished().len());
        self.lender.lend(room, now).into_iter().map(|((), word)| word).collect()
    }

    pub(crate) fn take(&mut self, order: Order, now: Timestamp) -> Did {
        match order {
            Order::Assign(assignment) => {
                let key = (assignment.run, assignment.token);
                match self.in_hand.get(&key) {
                    Some(attempt) => attempt.outcome.as_ref().map_or(Did::Nothing, |outcome| {
                        Did::Say(vec![Report::Finished {
                            run: key.0,
                            token: key.1,
                            outcome: outcome.clone(),
                        }])
                    }),
                    None if !assignment.again && self.lender.unused() == 0 => {
                        Did::Object(format!("run {} was assigned without a credit", key.0))
                    }
                    None => {
                        if !assignment.again {
                            self.lender.used(&());
                        }
                        self.in_hand.insert(key, Attempt { started: now, outcome: None, cancelled: false });
                        Did::Start(assignment)
                    }
                }
            }
            Order::Cancel { run, token, .. } => match self.in_hand.get_mut(&(run, token)) {
                Some(attempt) if attempt.outcome.is_none() && !attempt.cancelled => {
                    attempt.cancelled = true;
                    Did::Stop(run, token)
                }
                Some(_) => Did::Nothing,
                None => {
                    // It never starts: whoever sends the assignment later hears that it failed.
                    let outcome = Outcome::failed(now, "cancelled before it came");
                    self.in_hand.insert(
                        (run, token),
                        Attempt { started: now, outcome: Some(outcome), cancelled: true },
                    );
                    Did::Nothing
                }
            },
            Order::Acknowledge { run, token } => {
                self.in_hand.remove(&(run, token));
                Did::Nothing
            }
            Order::Resend => Did::Say(self.heartbeat()),
            Order::GaveBack { total } => {
                self.lender.gave_back(&(), total);
                Did::Nothing
            }
            Order::Waiting { priority, runs } => {
                self.lender.waits(&(), priority, runs, now);
                Did::Nothing
            }
        }
    }

    /// An attempt has ended; none: it had ended before, or was never begun.
    pub(crate) fn end(&mut self, run: RunId, token: Token, end: End) -> Option<Report> {
        let attempt = self.in_hand.get_mut(&(run, token))?;
        if attempt.outcome.is_some() {
            return None;
        }
        let mut outcome = match end {
            End::Succeeded if !attempt.cancelled => Outcome::succeeded(attempt.started),
            _ => Outcome::failed(attempt.started, "it failed"),
        };
        outcome.output = token.to_string().into();
        attempt.outcome = Some(outcome.clone());
        Some(Report::Finished { run, token, outcome })
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_hand.is_empty()
    }

    /// A sign of life, and every outcome that nobody has acknowledged.
    pub(crate) fn heartbeat(&self) -> Vec<Report> {
        let mut reports = vec![Report::Alive { attempts: self.in_hand.keys().copied().collect() }];
        reports.extend(self.unacknowledged());
        reports
    }

    pub(crate) fn unfinished(&self) -> Vec<(RunId, Token)> {
        self.in_hand.iter().filter(|(_, attempt)| attempt.outcome.is_none()).map(|(key, _)| *key).collect()
    }

    fn unacknowledged(&self) -> Vec<Report> {
        let ended = self.in_hand.iter().filter_map(|(key, attempt)| Some((key, attempt.outcome.clone()?)));
        ended.map(|((run, token), outcome)| Report::Finished { run: *run, token: *token, outcome }).collect()
    }
}
