//! The driver: all decisions of a scheduling node, without I/O.
//!
//! `step(input, moment)` takes an input and appends to `outputs` what is to be done. The caller (the node's loop on
//! tokio, or the simulator in one thread) carries the outputs out and brings the results back as further inputs.
//! Inside:
//!
//! ```text
//!  commands ─▶ shards ─▶ shard.apply ─▶ lane: sealed into a batch ─▶ Commit ─▶ committed ─▶ effects
//!                │ rows it needs                 ▲ next batch meanwhile
//!                ▼                               │
//!              reads ─▶ Fetch, Page ─▶ supply ───┘
//! ```
//!
//! **Invariant:** no effect leaves before the commit of every batch applied before it in its lane. While one commit is
//! in flight, the next batch is applied on top of it; an idle node commits a single change at once.

mod io;
mod shard_entry;
mod rank;
mod node_weight;
mod membership;
mod lead;
mod rebalance;
mod takeover;
mod pump;
mod lane;
mod reads;
mod message_pages;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::Report;
use punctual_core::change::Want;
use punctual_core::command::Command;
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::limits::COMMIT_BATCH_MAX;
use punctual_core::name::Name;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::time::{Elapsed, Moment};
use punctual_core::worker::Announcement;
use punctual_engine::{Effect, Pool, Shard, Ticket};
use punctual_store::Session;

pub use io::{Input, Output};
use lane::Lane;
use membership::Membership;
pub use membership::{Lost, View};
pub use node_weight::LoadLimit;
use pump::COMMAND_WAIT;
use reads::Reads;
pub use rebalance::Leader;
use shard_entry::{ShardEntry, Standing};
use takeover::Takeovers;

/// The pause before retrying a store that was full or unreachable.
const REST: Duration = Duration::from_millis(500);
/// The pause before retrying a shard whose rows another transaction has locked. Each retry delays the other shards of
/// its lane.
const BLOCKED_REST: Duration = Duration::from_secs(2);
/// How often the driver wants to be called while attempts are running, so that a paused process is noticed within this
/// time. With no attempts running it is called when the next timer is due.
const LOOK: Duration = Duration::from_secs(1);
/// If a call comes this much later than planned, the process was paused. The surplus does not count as elapsed time, so
/// no worker is called silent or too slow because of it.
const LATE: Duration = Duration::from_millis(200);
/// Maximum size of the reports waiting to be applied. Beyond it, reports are dropped: the worker sends an outcome again
/// until it is acknowledged, and would fill our memory while the store does not answer.
const UNHEARD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How often a transaction that was certainly rolled back is sent again unmodified.
const RESENDS_MAX: u32 = 3;

#[derive(Debug, Clone)]
pub struct Settings {
    pub shards: u16,
    /// Number of concurrent transactions: one if the store has a single writer, otherwise two.
    pub lanes: usize,
    /// How long a fenced shard is left alone before it is acquired again, and how long a node counts as alive after its
    /// last renewal.
    pub shard_lease: Duration,
    /// This node's session in the cluster. `None` means a single node that leads every shard.
    pub session: Option<Session>,
    /// Approximate maximum of rows that a lane puts into one commit.
    pub commit_batch: usize,
    pub engine: punctual_engine::Settings,
}

#[derive(Debug)]
pub struct Driver {
    settings: Settings,
    shards: Vec<ShardEntry>,
    pool: Pool,
    lanes: Vec<Lane>,
    reads: Reads,
    /// `None` means a single node.
    membership: Option<Membership>,
    takeovers: Takeovers,
    /// Effects that are committed but must not leave before the lease is renewed.
    withheld: Vec<(ShardId, Effect)>,
    /// Commands in order of arrival that their shard has not taken yet.
    intake: VecDeque<Waiting>,
    reports: VecDeque<(WorkerId, Report)>,
    /// Total size of the waiting reports, including those for shards that are not loaded.
    unheard_bytes: usize,
    joining: VecDeque<Joining>,
    /// Workers whose first heartbeat has come since they joined or were silent: what former leaders gave them is
    /// offered to them again.
    returned: Vec<WorkerId>,
    /// Workers that are shutting down, until their last reports are applied.
    departing: Vec<WorkerId>,
    /// Engine time: it never goes backwards.
    now: Timestamp,
    /// Elapsed time: independent of changes to the wall clock.
    elapsed: Elapsed,
    lasted: Lasted,
    outputs: Vec<Output>,
    counts: Counts,
}

/// Measures elapsed time.
#[derive(Debug)]
struct Lasted {
    /// Elapsed time since the driver was made, without rounding, so that steps below a millisecond add up.
    total: Duration,
    /// The monotonic clock at the last call.
    seen: Duration,
    /// The monotonic time by which the next call was planned.
    look: Option<Duration>,
}

impl Lasted {
    fn until(&self, at: Elapsed) -> Duration {
        at.since(Elapsed::default()).saturating_sub(self.total)
    }
}

/// When to call the driver again if no input arrives before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wake {
    /// At this wall-clock time.
    pub due: Option<Timestamp>,
    /// At this monotonic time.
    pub elapsed: Option<Duration>,
}

impl Wake {
    /// How long to sleep. `until` gives the time until a wall-clock time; `elapsed` is the monotonic time now. `None`
    /// means there is nothing to wait for.
    pub fn sleep(self, until: impl FnOnce(Timestamp) -> Duration, elapsed: Duration) -> Option<Duration> {
        let lasting = self.elapsed.map(|at| at.saturating_sub(elapsed));
        self.due.map(until).into_iter().chain(lasting).min()
    }
}

/// What a driver has done since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub commits: u64,
    pub changes: u64,
    /// How often a shard's memory was discarded.
    pub reloads: u64,
}

/// A worker that waits to be admitted.
#[derive(Debug)]
struct Joining {
    worker: WorkerId,
    announced: Announcement,
    holding: Vec<(RunId, Token)>,
    /// When it joined.
    since: Elapsed,
    /// Reports about itself that it has sent since.
    said: Vec<Report>,
}

/// A command that waits for rows, or for its shard to be loaded.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    command: Command,
    since: Elapsed,
    /// Rows already requested: a row that was requested and not found does not exist.
    asked: Vec<Want>,
    /// Further rows that turned out to be needed after the first read.
    more: Vec<Want>,
}

impl Driver {
    pub fn new(settings: Settings, moment: Moment) -> Self {
        let now = moment.now;
        let membership = settings.session.clone();
        let lived = Elapsed::from(moment.elapsed);
        let membership =
            membership.map(|me| Membership::new(me, settings.shard_lease, settings.shards, lived));
        let standing = || match &membership {
            Some(_) => Standing::Elsewhere { until: Elapsed::default() },
            None => Standing::Away,
        };
        let shards: Vec<ShardEntry> =
            (0..settings.shards).map(|id| ShardEntry::new(ShardId(id), standing())).collect();
        let node = settings.session.as_ref().map(|session| Arc::clone(&session.node));
        let lanes = (0..settings.lanes.max(1)).map(|_| Lane::default()).collect();
        let mut driver = Driver {
            settings,
            shards,
            pool: Pool::of(node),
            lanes,
            reads: Reads::default(),
            membership,
            takeovers: Takeovers::default(),
            withheld: Vec::new(),
            intake: VecDeque::new(),
            reports: VecDeque::new(),
            unheard_bytes: 0,
            joining: VecDeque::new(),
            returned: Vec::new(),
            departing: Vec::new(),
            now,
            elapsed: Elapsed::default(),
            lasted: Lasted { total: Duration::ZERO, seen: moment.elapsed, look: None },
            outputs: Vec::new(),
            counts: Counts::default(),
        };
        driver.pump();
        driver.plan_look(moment);
        driver
    }

    /// Takes one input. When no more input is available, call [`Driver::settle_down`] and carry the outputs out.
    pub fn step(&mut self, input: Input, moment: Moment) {
        self.advance(moment);
        match input {
            Input::Command { ticket, command } => {
                self.intake.push_back(Waiting {
                    ticket,
                    command,
                    since: self.elapsed,
                    asked: Vec::new(),
                    more: Vec::new(),
                });
            }
            Input::Joined { worker, announced, holding } => {
                self.joining.retain(|joining| joining.worker != worker);
                self.departing.retain(|departing| *departing != worker);
                // Credits of the worker's earlier connection are void.
                self.pool.leave(&worker);
                self.pool.is_joining(&worker, self.elapsed);
                let (since, said) = (self.lived(), Vec::new());
                self.joining.push_back(Joining { worker, announced, holding, since, said });
            }
            Input::Left { worker } => {
                self.joining.retain(|joining| joining.worker != worker);
                self.pool.lose(&worker, self.elapsed);
            }
            Input::Departed { worker } => {
                self.joining.retain(|joining| joining.worker != worker);
                self.pool.leave(&worker);
                self.departing.push(worker);
            }
            Input::Reports { worker, reports } => self.hear(&worker, reports),
            Input::Renewed { result } => self.renewed(result, moment),
            Input::ClusterChanged => self.look_now(),
            Input::Load(load) => self.note_load(load),
            Input::Stop => self.hand_over(),
            Input::Acquired { claims, result } => self.acquired(&claims, result),
            Input::Loaded { shard, result } => self.loaded(shard, result),
            Input::Committed { lane, result } => self.committed(lane, result),
            Input::Fetched { read, result } => self.fetched(read, result),
            Input::Paged { read, shard, result } => self.paged(read, shard, result),
            Input::MessagesRead { read, shard, result } => self.messages_read(read, shard, result),
            Input::Released | Input::Wake => {}
        }
    }

    /// Applies everything that can be applied now, and sends the batches that can be sent.
    pub fn settle_down(&mut self, moment: Moment) {
        self.advance(moment);
        self.pump();
        self.plan_look(moment);
    }

    /// Advances both clocks. Engine time follows the wall clock but never goes backwards. Elapsed time adds the
    /// monotonic time since the last call; if this call comes late, it adds only the planned span.
    ///
    /// Without a valid lease, a node of a cluster has not read the store's clock for so long that its own clock may be
    /// wrong: engine time stops until the next renewal. Until then nothing is applied to a shard, because an early fire
    /// or a record with an outdated time cannot be undone. See [`Driver::may_apply`].
    fn advance(&mut self, moment: Moment) {
        let lasted = &mut self.lasted;
        let passed = moment.elapsed.saturating_sub(lasted.seen);
        let meant = lasted.look.map(|look| look.saturating_sub(lasted.seen).max(LOOK));
        lasted.total += meant.map_or(passed, |meant| passed.min(meant + LATE));
        lasted.seen = moment.elapsed.max(lasted.seen);
        self.elapsed = lasted.total.into();
        if self.knows_time() {
            self.now = self.now.max(moment.now);
        }
    }

    /// Whether events may be applied to a shard. While the time is unknown, commands, reports, timers, rows and loaded
    /// shards wait for the next renewal.
    fn may_apply(&self) -> bool {
        self.knows_time() || is_planted(Fault::TimeIsNotAwaited)
    }

    /// Whether the store's clock was read recently. A single node uses its store's clock.
    fn knows_time(&self) -> bool {
        self.membership.as_ref().is_none_or(|members| members.holds(self.lived()))
    }

    /// Notes when the next call is planned: [`Driver::advance`] counts at most that span.
    fn plan_look(&mut self, moment: Moment) {
        let sleep = self.next_wake().sleep(|due| due.since(moment.now), moment.elapsed);
        self.lasted.look = sleep.map(|sleep| moment.elapsed + sleep);
    }

    /// Monotonic time, including time in which the process was paused: a lease also ends while its holder is paused.
    fn lived(&self) -> Elapsed {
        self.lasted.seen.into()
    }

    pub fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Whether more commands may be handed in. If not, they wait in the caller's bounded channel.
    pub fn has_room(&self) -> bool {
        self.intake.len() < COMMIT_BATCH_MAX
    }

    /// When to call again if no input arrives before.
    pub fn next_wake(&self) -> Wake {
        let may_apply = self.may_apply();
        let knows_time = self.knows_time();
        let leading = |entry: &&ShardEntry| knows_time && entry.is_leading();
        // Due timers without room in their lane need no wake-up: they continue when the commit in flight ends.
        let due =
            self.shards.iter().filter(leading).filter_map(|entry| {
                entry.wake.filter(|at| *at > self.now || self.lane_takes_timers(entry.id))
            });
        let lasting = self.shards.iter().filter_map(|entry| match &entry.standing {
            Standing::Leading(_) => {
                let takes = self.lane_takes_timers(entry.id);
                let deadline = entry.deadline.filter(|at| may_apply && (*at > self.elapsed || takes));
                let page_again_at = entry.page_again_at.filter(|at| *at > self.elapsed);
                deadline.into_iter().chain(page_again_at).min()
            }
            Standing::Resting { until, .. } => Some(*until),
            _ => None,
        });
        let silence = self.pool.roster().next_silence(self.settings.engine.attempt_lease);
        let silence = silence.filter(|_| may_apply);
        let stuck = self.shards.iter().filter(|entry| !may_apply || !entry.is_leading());
        let stuck = stuck.filter_map(|entry| entry.commands.front());
        let stuck = stuck.chain(self.intake.front().filter(|_| !may_apply));
        let expiry = stuck.map(|waiting| waiting.since + COMMAND_WAIT);
        let lasting = lasting.chain(silence).chain(expiry).min();
        let lasting = lasting.map(|at| self.lasted.until(at));
        let look = (self.pool.roster().attempts_held() > 0).then_some(LOOK);
        let renewal = self.membership.as_ref().and_then(Membership::next_renewal);
        // Wake up when the membership becomes stale, so that the status says so even if no other input arrives.
        let stale = self.membership.as_ref().and_then(Membership::fresh_until);
        let stale = stale.filter(|at| *at > self.lived());
        let looks = renewal.into_iter().chain(stale).map(|at| at.since(self.lived()));
        let sleep = lasting.into_iter().chain(look).chain(looks).min();
        Wake { due: due.min(), elapsed: sleep.map(|sleep| self.lasted.seen + sleep) }
    }

    /// Engine time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Elapsed time.
    pub fn elapsed(&self) -> Elapsed {
        self.elapsed
    }

    /// Whether every shard that this node should lead is loaded, and the cluster was read recently.
    pub fn is_ready(&self) -> bool {
        self.is_settled() && self.membership.as_ref().is_none_or(|members| members.is_fresh(self.lived()))
    }

    /// Whether no shard is being acquired or loaded.
    fn is_settled(&self) -> bool {
        self.shards.iter().all(|entry| entry.is_leading() || entry.is_elsewhere())
    }

    /// Whether this node leads no shard and is not about to lead one.
    pub fn leads_nothing(&self) -> bool {
        self.shards.iter().all(ShardEntry::is_elsewhere)
    }

    pub fn shards_led(&self) -> usize {
        self.shards.iter().filter(|entry| entry.is_leading()).count()
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Sets the channels of alerts that name none.
    pub fn set_channels(&mut self, channels: Vec<Name>) {
        self.pool.set_channels(channels);
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Another node has told a worker in vain to stop these attempts.
    pub fn distrust(&mut self, worker: &WorkerId, attempts: &[(RunId, Token)]) {
        for (run, token) in attempts {
            self.pool.distrust(worker, *run, *token);
        }
    }

    /// A shard's state in memory, for inspection.
    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        match &self.shards.get(usize::from(id.0))?.standing {
            Standing::Leading(shard) => Some(shard),
            _ => None,
        }
    }
}
