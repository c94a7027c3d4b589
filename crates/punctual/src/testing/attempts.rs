//! Which attempts of a test node's worker can still move.
//!
//! An attempt is known from its assignment until the node has committed its outcome and acknowledged it. It cannot
//! move while its function sleeps on the clock of the test.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use punctual_core::attempt::Order;
use punctual_core::ids::{RunId, Token};
use punctual_core::time::ManualClock;
use punctual_worker::function::{Context, Functions};
use tokio::sync::Notify;

use crate::wiring::Observer;

#[derive(Debug)]
pub(super) struct Attempts {
    clock: ManualClock,
    state: Mutex<State>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// Orders that were passed on to the worker.
    orders: u64,
    /// Whether there was an assignment.
    have_begun: bool,
    attempts: BTreeMap<(RunId, Token), Attempt>,
}

#[derive(Debug, Default)]
struct Attempt {
    is_cancelled: bool,
    /// Wakes its function. `None` means that the function has not waited yet.
    waker: Option<Waker>,
}

impl Attempts {
    pub(super) fn new(clock: ManualClock) -> Attempts {
        Attempts { clock, state: Mutex::default(), changed: Arc::default() }
    }

    /// Completes at the next change after this call.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + use<> {
        let mut notified = Box::pin(Arc::clone(&self.changed).notified_owned());
        notified.as_mut().enable();
        notified
    }

    pub(super) fn have_begun(&self) -> bool {
        self.state().have_begun
    }

    /// Whether no attempt can move, and the worker was passed all of this many orders.
    pub(super) fn are_settled(&self, orders: u64) -> bool {
        let state = self.state();
        let sleeps = |waker: &Option<Waker>| waker.as_ref().is_some_and(|waker| self.clock.is_asleep(waker));
        state.orders == orders
            && state.attempts.values().all(|attempt| !attempt.is_cancelled && sleeps(&attempt.waker))
    }

    /// The same functions, watched while they are called.
    pub(super) fn watch(self: &Arc<Self>, functions: Functions) -> Functions {
        let attempts = Arc::clone(self);
        functions.wrapped(move |context: &Context, mut calling| {
            let (attempts, key) = (Arc::clone(&attempts), (context.run(), context.token()));
            Box::pin(poll_fn(move |cx| {
                let polled = calling.as_mut().poll(cx);
                if let Some(attempt) = attempts.state().attempts.get_mut(&key).filter(|_| polled.is_pending())
                {
                    attempt.waker = Some(cx.waker().clone());
                }
                attempts.changed.notify_waiters();
                polled
            }))
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Attempts {
    fn ordered(&self, orders: &[Order]) {
        let mut state = self.state();
        state.orders += orders.len() as u64;
        for order in orders {
            match order {
                Order::Assign(assignment) => {
                    state.have_begun = true;
                    state.attempts.insert((assignment.run, assignment.token), Attempt::default());
                }
                Order::Cancel { run, token, .. } => {
                    if let Some(attempt) = state.attempts.get_mut(&(*run, *token)) {
                        attempt.is_cancelled = true;
                    }
                }
                Order::Acknowledge { run, token } => {
                    state.attempts.remove(&(*run, *token));
                }
                Order::Resend
                | Order::Saved { .. }
                | Order::GaveBack { .. }
                | Order::Waiting { .. }
                | Order::Drain { .. } => {}
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }
}
