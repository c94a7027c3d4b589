//! Faults that a test plants to show that the simulator finds each of them.
//!
//! Only compiled with the feature `planted`, which only the simulator enables.

/// One small, plausible mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An add queues a message with a delay at once.
    AddIgnoresDelay,
    /// An add does not check whether its unique key is taken.
    AddIgnoresKey,
    /// An add does not wake waiting consumers.
    AddForgetsWaiters,
    /// A take delivers expired messages.
    TakeIgnoresExpiry,
    /// The take of a message with `retry` zero is written up to a second later, like other takes.
    TakeOnceIsWrittenLate,
    /// A message with `retry` zero is queued again after a second.
    TakeOnceIsRetried,
    /// A message that was not acknowledged is not queued again.
    RetryIsForgotten,
    /// An acknowledged message is not deleted.
    AckKeepsMessage,
    /// A message that is put back with a delay is queued at once.
    NackIgnoresDelay,
    /// A queue delivers more messages at once than its settings allow.
    RunningIsIgnored,
    /// A load forgets how many messages of a queue are with consumers.
    UnackedIsForgotten,
    /// A message that was delivered too often is deleted without a notice to its dead-letter queue.
    DeadMessageIsLost,
    /// A message that was moved stays in its queue as well.
    DeadMessageStays,
    /// A notice that is repeated adds a message to a dead-letter queue again.
    DeadMessageIsAddedAgain,
    /// A page of a long queue is treated as the last one.
    PageIsTheLast,
    /// A node whose lease has run out goes on applying events, although its time stands still.
    TimeIsNotAwaited,
    /// A worker starts an attempt again after it has ended.
    AttemptStartsAgain,
    /// A worker sends an outcome once and does not repeat it.
    OutcomeIsForgotten,
    /// A worker continues an attempt that its node has given up.
    LeaseIsIgnored,
    /// An assignment that is offered again uses a credit.
    OfferUsesCredit,
    /// A draining worker still lends its slots.
    DrainLends,
    /// A checkpoint is confirmed before it is stored.
    CheckpointIsConfirmedEarly,
    /// The next attempt after a lost one starts without the checkpoint.
    LossForgetsCheckpoint,
    /// A report that comes late replaces a newer checkpoint.
    LateReportIsTaken,
    /// A move uses up an attempt.
    MoveUsesAttempt,
    /// A moved run becomes ready before its attempt has ended.
    MoveDoesNotWait,
    /// An attempt that its worker yields counts as lost.
    YieldIsALoss,
    /// The end of a run is counted in the batch after its own.
    EndIsCountedLate,
    /// A step of a workflow starts before the steps that it needs have ended.
    StepIgnoresNeeds,
    /// A load forgets which steps of a workflow have started.
    StepIsStartedAgain,
    /// The row of a step that succeeded is not written.
    StepEndIsNotWritten,
    /// A load forgets the items of a `map` that have not started.
    FanOutIsForgotten,
    /// A step with `map` executes more items at the same time than `parallel` allows.
    ParallelIsIgnored,
    /// A workflow of which a step failed counts as succeeded.
    WorkflowHidesFailure,
    /// The end of a run is written without a notice to the step that waits for it.
    CallerIsNotTold,
    /// The end of a run is written without a notice to the jobs that follow it.
    FollowerIsNotTold,
    /// A notice that is repeated starts a job again.
    StartIsNotRemembered,
    /// A call that is repeated starts a job again.
    CallIsNotRemembered,
    /// The steps of `finally` are skipped when a workflow is stopped.
    FinallyIsSkipped,
    /// A step is started although its rule does not hold.
    RuleIsIgnored,
    /// A run that gathers events takes only the first.
    BatchForgetsEvent,
    /// An event does not end the wait of a step.
    StepIsNotWoken,
    /// A keyed event ends the wait of a step for another key.
    EventKeyIsIgnored,
    /// A step that is split ends with its first part.
    SplitStepEndsEarly,
    /// A step starts although the switch that lists it chose another case.
    SwitchIsIgnored,
    /// A step that has ended without its event goes on listening.
    StepGoesOnListening,
    /// A step starts although its workflow is paused.
    PauseIsIgnored,
    /// A retry executes a step again that it reuses.
    ReusedStepIsExecuted,
    /// A retry reuses a step although a step that it needs is executed again.
    RetryIgnoresNeeds,
    /// A retry reuses a step that failed.
    RetryReusesFailure,
    /// A limit of runs at once is not looked at.
    LimitForgotten,
    /// A load forgets the holds.
    HoldIsNotLoaded,
    /// A hold does not keep the runs from starting that are ready already.
    HoldLeavesReadyRuns,
    /// The next attempt of a run starts although its namespace is on hold.
    RetryIgnoresHold,
    /// The due times during a hold are not recorded.
    HeldFireIsNotRecorded,
    /// No backfill makes up for the due times of a hold that keeps them.
    KeptFireIsLost,
    /// What a rate has used up is not looked at.
    RateForgotten,
    /// The end of a run does not start the runs that wait for its place.
    PlaceIsNotReturned,
    /// A lock is given although it is held.
    LockIgnoresHolder,
    /// A load forgets which locks are held.
    LockEndsAtTakeover,
    /// A renewal of a lock does not extend it.
    RenewalIsForgotten,
    /// A lock that is released is not given to the first that waits for it.
    LockForgetsWaiter,
    /// The error of a run that failed at its first attempt is not in the search index.
    ErrorIsNotIndexed,
    /// An incident that ends is written without its notices.
    EndIsNotNotified,
    /// A load forgets the incidents that are open.
    IncidentsAreForgotten,
    /// A success does not end the incident of the failures before it.
    SuccessEndsNothing,
    /// A failure is notified although its error is known.
    FailureIsNotifiedAgain,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault for all code that runs on this thread. `None` removes it.
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
