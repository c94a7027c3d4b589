//! The objects of REST: requests, answers and problems.
//!
//! Every object can be written and read: the server writes answers; the client, the CLI and `verify` read them.

mod again;
mod approval;
mod attempt;
mod backfill;
mod checked;
mod calendar;
mod descriptor;
mod cron;
mod dead_letter;
mod decide;
mod graph;
mod history;
mod hold;
mod incident;
mod job;
mod listed;
mod live;
mod lock;
mod log;
mod message;
mod output;
mod overview;
mod node;
mod page;
mod ping;
mod problem;
mod progress;
mod queue;
mod revision;
mod run;
mod statistics;
mod submit;
mod token;
mod whoami;
mod why;

pub use again::{Again, RetryFrom, StepAgain};
pub use approval::Approval;
pub use attempt::{Attempt, AttemptResult};
pub use backfill::{Backfill, BackfillJob, BackfillLimits, BackfillSpan, LeftOut};
pub use calendar::{Calendar, Carried, Day};
pub use checked::{Checked, Warning};
pub use cron::{Explained, Occurrence};
pub use dead_letter::DeadLetter;
pub use decide::{Action, Chosen, DECIDED_MAX, Decide, Decision, Decisions};
pub use descriptor::{Descriptor, PutDescriptor, Service};
pub use graph::{
    ByHand, Comment, Graph, GraphEdge, GraphNode, StepExpression, StepExpressions, StepItems, StepState,
};
pub use history::{Line, Resume, Skip, Stats, Step, Workflow};
pub use hold::{HeldFires, Hold, PutHold};
pub use incident::{Channel, Incident, Silence, SilenceIncident};
pub use job::{Cursor, Fire, Job, JobState, MADE_HEADER, Made, Pause, PauseJob};
pub use listed::{
    ActOnRuns, ActedOnRuns, ChosenRuns, LastRun, RunAction, RunPage, RunsMatching, StateCounts,
};
pub use live::{LiveChanges, LiveHello};
pub use lock::{AcquireLock, HeldFence, Lock, LockWaiter};
pub use log::LogRecord;
pub use message::{
    ActOnMessages, ActedOnMessages, AddMessage, AddMessages, Added, AddedMessage, AddedMessages,
    DeliveryInfo, MESSAGES_MAX, Message, MessageAction, MessageState, NOT_AN_ID, PRIORITY_DEFAULT, Postponed,
    RETRY_DEFAULT, TTL_DEFAULT, Taken,
};
pub use node::{Node, Worker};
pub use output::{EVENT_STREAM, LogChunk, LogEnd, LogStream};
pub use overview::{
    Attention, AttentionKind, FireBucket, Fires, HourCounts, JobCounts, JobFires, LiveCounts, MinuteCounts,
    NextFire, NodeCounts, Overview, WorkerCounts,
};
pub use page::Page;
pub use ping::{PING_KEY_HEADER, PingKey, Pinged};
pub use problem::{Code, Problem};
pub use progress::{
    ATTEMPT_KEY_HEADER, Progress, ProgressEvent, ProgressLine, ProgressReport, QueuedProgress, TaskProgress,
    TaskProgressed,
};
pub use queue::{
    ALSO_MAX, Direction, Flushed, Messages, Paused, Queue, QueueSettings, TAKE_WAIT_MAX, Take, Way,
};
pub use revision::{Diff, Revision, RevisionFile};
pub use run::{Checkpoint, Child, Event, Run, Shard, State, Trigger, statuses};
pub use statistics::{JobStatistics, Percentiles, RunCounts, StatisticsBucket};
pub use submit::{Cancel, Move, SendEvent, SentEvent, Start, Started, Submit, key};
pub use token::{AddToken, NewToken, Role, Token};
pub use whoami::{Auth, NamespaceCounts, Whoami};
pub use why::{Why, WhyDetails};
