//! Faults that a test plants to show that the simulator finds each of them.
//!
//! Without the feature `planted`, which only the simulator asks for, there are none and nothing of this is compiled in.

/// One small mistake, as somebody could make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An add puts a message with a delay into the line at once.
    AddIgnoresDelay,
    /// An add does not look whether its unique key is taken.
    AddIgnoresKey,
    /// An add does not wake the consumers that wait.
    AddForgetsWaiters,
    /// A take gives away what has expired.
    TakeIgnoresExpiry,
    /// A take of a message with `retry` zero is written a second later, as others are.
    TakeOnceIsWrittenLate,
    /// A message with `retry` zero goes back to the line after a second.
    TakeOnceIsRetried,
    /// A message that nobody acknowledged does not go back to the line.
    RetryIsForgotten,
    /// An acknowledged message stays.
    AckKeepsMessage,
    /// A message that is put back with a delay is in the line at once.
    NackIgnoresDelay,
    /// A page of a deep line is taken for the last one.
    PageIsTheLast,
    /// A node whose lease has run out goes on applying, although its time stands still.
    TimeIsNotAwaited,
    /// A worker starts an attempt that it has settled.
    AttemptStartsAgain,
    /// A worker says an outcome once, and forgets it.
    OutcomeIsForgotten,
    /// A worker goes on with an attempt that its node has given up.
    LeaseIsIgnored,
    /// An assignment that is offered again uses a credit.
    OfferUsesCredit,
    /// A worker that drains lends its slots.
    DrainLends,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault for everything that runs on this thread. None: they are without fault again.
#[cfg(feature = "planted")]
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

#[cfg(feature = "planted")]
pub fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

#[cfg(not(feature = "planted"))]
pub const fn is_planted(_: Fault) -> bool {
    false
}
