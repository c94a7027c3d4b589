//! The driver: everything a scheduling node does, without doing any I/O.
//!
//! `step(input, moment)` takes what arrived and leaves what is to be done in `outputs`; whoever carries them (the node's
//! loop on tokio, the simulator in one thread) brings the results back as further inputs. Inside:
//!
//! ```text
//!  commands ─▶ slots ─▶ shard.apply ─▶ lane: sealed into a batch ─▶ Commit ─▶ committed ─▶ effects
//!                │ rows it needs                 ▲ next batch meanwhile
//!                ▼                               │
//!              reads ─▶ Fetch, Page ─▶ supply ───┘
//! ```
//!
//! **Invariant:** no effect leaves before the commit of every batch applied before it in its lane. While one commit is
//! under way the next batch is applied on top of it; an idle node commits a lone change at once.

mod slot;
mod rank;
mod burden;
mod membership;
mod lead;
mod spread;
mod takeover;
mod pump;
mod lane;
mod reads;
mod backlog;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Order, Report};
use punctual_core::change::{Batch, Found, Loaded, TimerPage, TimerPlace, Want};
use punctual_core::command::{Answer, Command};
use punctual_core::ids::{Epoch, RunId, SessionId, ShardId, Token, WorkerId};
use punctual_core::limits::COMMIT_BATCH_MAX;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{Errand, Message, Place, QueueNumber};
use punctual_core::time::Moment;
use punctual_core::worker::Announcement;
use punctual_engine::{Effect, Pool, Shard, Ticket};
use punctual_store::{Claim, Error, Session};

use crate::handle::Failure;
pub use burden::Hot;
use lane::Lane;
use membership::Membership;
pub use membership::{Lost, View};
use pump::COMMAND_WAIT;
use reads::Reads;
use slot::{Slot, Standing};
pub use spread::Leader;
use takeover::Takeovers;

/// The pause before a store that was full or out of reach is tried again.
const REST: Duration = Duration::from_millis(500);
/// The pause before a shard whose rows somebody else held is tried again: whenever it is, the others of its lane wait.
const BLOCKED_REST: Duration = Duration::from_secs(2);
/// How often whoever carries the driver looks at the clock while attempts are under way: a process that was stopped
/// finds out within it. With nothing under way it sleeps until something is due.
const LOOK: Duration = Duration::from_secs(1);
/// Whoever comes back this much later than was asked for has been stopped. Nobody is silent or too slow for that.
const LATE: Duration = Duration::from_millis(200);
/// Bytes of reports that wait for their turn. Beyond it an outcome is let go: its worker sends it again until it is
/// acknowledged, and would fill our memory with it while the store does not answer.
const UNHEARD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Times a transaction that is known to be rolled back is sent again as it is.
const RESENDS_MAX: u32 = 3;

#[derive(Debug, Clone)]
pub struct Settings {
    pub shards: u16,
    /// Transactions under way at once: one where the store has one writer, two elsewhere.
    pub lanes: usize,
    /// How long a fenced shard is left alone before it is acquired again, and a node of a cluster counts as alive.
    pub shard_lease: Duration,
    /// What this node tells the others of itself; none: it is alone, and leads every shard.
    pub session: Option<Session>,
    /// About how many rows a lane takes into one commit.
    pub commit_batch: usize,
    pub engine: punctual_engine::Settings,
}

/// What has happened.
#[derive(Debug)]
pub enum Input {
    Command {
        ticket: Ticket,
        command: Command,
    },
    Joined {
        worker: WorkerId,
        announced: Announcement,
        holding: Vec<(RunId, Token)>,
    },
    Left {
        worker: WorkerId,
    },
    /// It left and will not finish what it has in hand.
    Parted {
        worker: WorkerId,
    },
    Reports {
        worker: WorkerId,
        reports: Vec<Report>,
    },
    /// What a look at the cluster showed.
    Renewed {
        result: Result<View, Error>,
    },
    /// Shards were given up, or could not be.
    Released,
    /// Something changed in the cluster that should be looked at: a shard was left to us.
    ClusterChanged,
    /// How busy this node is, in percent.
    Load(u8),
    /// Hand every shard over: the node is stopping.
    Stop,
    Acquired {
        claims: Vec<Claim>,
        result: Result<Vec<(ShardId, Epoch)>, Error>,
    },
    Loaded {
        shard: ShardId,
        result: Result<Loaded, Error>,
    },
    Committed {
        lane: usize,
        result: Result<(), Error>,
    },
    Fetched {
        read: u64,
        result: Result<Found, Error>,
    },
    Paged {
        read: u64,
        shard: ShardId,
        result: Result<TimerPage, Error>,
    },
    /// A page of a queue's line was read.
    Backlogged {
        read: u64,
        shard: ShardId,
        result: Result<Vec<Arc<Message>>, Error>,
    },
    /// Time has passed.
    Wake,
}

/// What is to be done.
#[derive(Debug)]
pub enum Output {
    /// Say that we live, and look who else does and who leads what.
    Renew {
        session: Session,
        ttl: Duration,
    },
    /// Give these shards up, and tell the heir.
    Release {
        shards: Vec<(ShardId, Epoch)>,
        heir: Option<SessionId>,
    },
    /// End the session of an earlier life of this node. Nobody waits for it.
    EndSession {
        session: SessionId,
    },
    Acquire {
        by: Option<SessionId>,
        claims: Vec<Claim>,
    },
    Load {
        shard: ShardId,
        epoch: Epoch,
    },
    Commit {
        lane: usize,
        batches: Arc<Vec<Batch>>,
    },
    Fetch {
        read: u64,
        wants: Vec<(ShardId, Want)>,
    },
    Page {
        read: u64,
        shard: ShardId,
        after: TimerPlace,
        limit: usize,
    },
    /// Read a page of a queue's line.
    Backlog {
        read: u64,
        shard: ShardId,
        queue: QueueNumber,
        after: Place,
        limit: usize,
    },
    Answer {
        ticket: Ticket,
        answer: Result<Answer, Failure>,
    },
    Order {
        worker: WorkerId,
        order: Order,
    },
    /// Bring word between a run and a queue, until it has arrived.
    Errand(Errand),
    /// The store cannot be used any more: the process must not go on as if nothing had happened.
    Fail {
        why: String,
    },
}

#[derive(Debug)]
pub struct Driver {
    settings: Settings,
    slots: Vec<Slot>,
    pool: Pool,
    lanes: Vec<Lane>,
    reads: Reads,
    /// None: alone.
    membership: Option<Membership>,
    takeovers: Takeovers,
    /// What was decided and is durable, but must not be said before the lease is renewed.
    withheld: Vec<(ShardId, Effect)>,
    /// Commands in the order of their arrival, until their shard takes them.
    intake: VecDeque<Waiting>,
    reports: VecDeque<(WorkerId, Report)>,
    /// What the reports that wait weigh, those for shards without a leader included.
    unheard_bytes: usize,
    joining: VecDeque<Joining>,
    /// Workers that said good-bye, until their last words are taken.
    parting: Vec<WorkerId>,
    /// Engine time: it never runs back.
    now: Timestamp,
    /// Elapsed time: it goes on whatever is done to the clock.
    elapsed: Timestamp,
    lasted: Lasted,
    outputs: Vec<Output>,
    counts: Counts,
}

/// How elapsed time is counted.
#[derive(Debug)]
struct Lasted {
    /// What it began with.
    since: Timestamp,
    /// What has passed since, to the last bit: looks that are less than a millisecond apart add up too.
    total: Duration,
    /// How long the clock had been going at the last look.
    seen: Duration,
    /// When we wanted to look again at the latest.
    look: Option<Duration>,
}

impl Lasted {
    fn until(&self, at: Timestamp) -> Duration {
        at.since(self.since).saturating_sub(self.total)
    }
}

/// When to call a driver again if nothing happens before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wake {
    /// When the clock shows this.
    pub due: Option<Timestamp>,
    /// When it has been going for so long, whatever it shows.
    pub elapsed: Option<Duration>,
}

impl Wake {
    /// How long to sleep, with how long it is until a clock shows something and how long it has been going; none: there
    /// is nothing to wait for.
    pub fn sleep(self, until: impl FnOnce(Timestamp) -> Duration, elapsed: Duration) -> Option<Duration> {
        let lasting = self.elapsed.map(|at| at.saturating_sub(elapsed));
        self.due.map(until).into_iter().chain(lasting).min()
    }
}

/// What a driver has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub commits: u64,
    pub changes: u64,
    /// Times a shard's memory was thrown away.
    pub reloads: u64,
}

/// A worker that waits to be admitted.
#[derive(Debug)]
struct Joining {
    worker: WorkerId,
    announced: Announcement,
    holding: Vec<(RunId, Token)>,
    /// When it said so.
    since: Timestamp,
    /// What it has said since.
    said: Vec<Report>,
}

/// A command that waits for rows, or for its shard.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    command: Command,
    since: Timestamp,
    /// Rows already asked for: what was not found does not exist.
    asked: Vec<Want>,
    /// Rows that what was read showed to be needed too.
    more: Vec<Want>,
}

impl Driver {
    pub fn new(settings: Settings, moment: Moment) -> Self {
        let now = moment.now;
        let membership = settings.session.clone();
        let lived = Timestamp::MIN + moment.elapsed;
        let membership =
            membership.map(|me| Membership::new(me, settings.shard_lease, settings.shards, lived));
        let standing = || match &membership {
            Some(_) => Standing::Elsewhere { until: now },
            None => Standing::Away,
        };
        let slots: Vec<Slot> = (0..settings.shards).map(|id| Slot::new(ShardId(id), standing())).collect();
        let node = settings.session.as_ref().map(|session| Arc::clone(&session.node));
        let lanes = (0..settings.lanes.max(1)).map(|_| Lane::default()).collect();
        let mut driver = Driver {
            settings,
            slots,
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
            parting: Vec::new(),
            now,
            elapsed: now,
            lasted: Lasted { since: now, total: Duration::ZERO, seen: moment.elapsed, look: None },
            outputs: Vec::new(),
            counts: Counts::default(),
        };
        driver.pump();
        driver.plan_look(moment);
        driver
    }

    /// Takes one input. Call [`Driver::settle_down`] when no more is at hand, then carry the outputs out.
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
                self.parting.retain(|parting| *parting != worker);
                // Whatever it lent before it came anew is no longer ours.
                self.pool.roster.leave(&worker);
                let (since, said) = (self.lived(), Vec::new());
                self.joining.push_back(Joining { worker, announced, holding, since, said });
            }
            Input::Left { worker } => {
                self.joining.retain(|joining| joining.worker != worker);
                self.pool.roster.lose(&worker, self.elapsed);
            }
            Input::Parted { worker } => {
                self.joining.retain(|joining| joining.worker != worker);
                self.pool.roster.leave(&worker);
                self.parting.push(worker);
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
            Input::Backlogged { read, shard, result } => self.backlogged(read, shard, result),
            Input::Released | Input::Wake => {}
        }
    }

    /// Applies all that can be applied now, and sends off what can be sent.
    pub fn settle_down(&mut self, moment: Moment) {
        self.advance(moment);
        self.pump();
        self.plan_look(moment);
    }

    /// Due times go by the clock, but never back. What lasts goes by the time between two looks at it, however it was
    /// set in between; and if the second look came late, only by what was meant to lie between them.
    ///
    /// A node of a cluster whose lease has run out has not read the store's clock for so long that its own may be anywhere:
    /// engine time stands still until the next renewal. Meanwhile nothing is applied to a shard: what is early cannot be
    /// taken back, and neither can what is recorded with a time that is over. See [`Driver::may_apply`].
    fn advance(&mut self, moment: Moment) {
        let lasted = &mut self.lasted;
        let passed = moment.elapsed.saturating_sub(lasted.seen);
        let meant = lasted.look.map(|look| look.saturating_sub(lasted.seen).max(LOOK));
        lasted.total += meant.map_or(passed, |meant| passed.min(meant + LATE));
        lasted.seen = moment.elapsed.max(lasted.seen);
        self.elapsed = lasted.since + lasted.total;
        if self.knows_time() {
            self.now = self.now.max(moment.now);
        }
    }

    /// Whether anything may be applied to a shard. While the time is not known, commands, reports, timers, rows and loaded
    /// shards wait for the next renewal.
    fn may_apply(&self) -> bool {
        self.knows_time() || is_planted(Fault::TimeIsNotAwaited)
    }

    /// Whether the store's clock was read a moment ago; a node that is alone has its store's clock.
    fn knows_time(&self) -> bool {
        self.membership.as_ref().is_none_or(|members| members.holds(self.lived()))
    }

    /// Until then nobody need look: so much time may pass for everything that lasts.
    fn plan_look(&mut self, moment: Moment) {
        let sleep = self.next_wake().sleep(|due| due.since(moment.now), moment.elapsed);
        self.lasted.look = sleep.map(|sleep| moment.elapsed + sleep);
    }

    /// Time that passed, whether or not we were there to see it: a lease ends while its holder is stopped.
    fn lived(&self) -> Timestamp {
        Timestamp::MIN + self.lasted.seen
    }

    pub fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Whether more commands may be handed in: else the caller lets them wait where they are bounded.
    pub fn has_room(&self) -> bool {
        self.intake.len() < COMMIT_BATCH_MAX
    }

    /// When to call again if nothing happens before.
    pub fn next_wake(&self) -> Wake {
        let may_apply = self.may_apply();
        let knows_time = self.knows_time();
        let leading = |slot: &&Slot| knows_time && slot.is_leading();
        // Timers that are due but had no room go on with the commit that is under way.
        let due = self
            .slots
            .iter()
            .filter(leading)
            .filter_map(|slot| slot.wake.filter(|at| *at > self.now || self.lane_takes_timers(slot.id)));
        let lasting = self.slots.iter().filter_map(|slot| match &slot.standing {
            Standing::Leading(_) => {
                let takes = self.lane_takes_timers(slot.id);
                let deadline = slot.deadline.filter(|at| may_apply && (*at > self.elapsed || takes));
                let page_again_at = slot.page_again_at.filter(|at| *at > self.elapsed);
                deadline.into_iter().chain(page_again_at).min()
            }
            Standing::Resting { until, .. } => Some(*until),
            _ => None,
        });
        let silence = self.pool.roster.next_silence(self.settings.engine.attempt_lease);
        let silence = silence.filter(|_| may_apply);
        let stuck = self.slots.iter().filter(|slot| !may_apply || !slot.is_leading());
        let stuck = stuck.filter_map(|slot| slot.commands.front());
        let stuck = stuck.chain(self.intake.front().filter(|_| !may_apply));
        let expiry = stuck.map(|waiting| waiting.since + COMMAND_WAIT);
        let lasting = lasting.chain(silence).chain(expiry).min();
        let lasting = lasting.map(|at| self.lasted.until(at));
        let look = (self.pool.roster.in_hand() > 0).then_some(LOOK);
        let renewal = self.membership.as_ref().and_then(Membership::next_renewal);
        // A look that does not come back makes us say so: nothing else may happen before it is given up.
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
    pub fn elapsed(&self) -> Timestamp {
        self.elapsed
    }

    /// Whether everything that should be led here is, and the cluster was seen a moment ago.
    pub fn is_ready(&self) -> bool {
        self.is_settled() && self.membership.as_ref().is_none_or(|members| members.is_fresh(self.lived()))
    }

    /// Whether no shard is on its way into memory.
    fn is_settled(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_leading() || slot.is_elsewhere())
    }

    /// Whether nothing is led here, and nothing is about to be.
    pub fn leads_nothing(&self) -> bool {
        self.slots.iter().all(Slot::is_elsewhere)
    }

    pub fn shards_led(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_leading()).count()
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// A shard as it is in memory, for looking into it.
    pub fn shard(&self, id: ShardId) -> Option<&Shard> {
        match &self.slots.get(usize::from(id.0))?.standing {
            Standing::Leading(shard) => Some(shard),
            _ => None,
        }
    }
}
