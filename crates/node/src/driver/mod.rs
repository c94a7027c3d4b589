//! The driver: everything a scheduling node does, without doing any I/O.
//!
//! `step(input, now)` takes what arrived and leaves what is to be done in `outputs`; whoever carries them (the node's
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
mod membership;
mod lead;
mod spread;
mod pump;
mod lane;
mod reads;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Order, Report};
use punctual_core::change::{Batch, Found, Loaded, TimerPage, TimerPlace, Want};
use punctual_core::command::{Answer, Command};
use punctual_core::ids::{Epoch, RunId, SessionId, ShardId, Token, WorkerId};
use punctual_core::limits::COMMIT_BATCH_MAX;
use punctual_core::worker::Announcement;
use punctual_engine::{Effect, Pool, Shard, Ticket};
use punctual_store::{Claim, Error, Session};

use crate::handle::Failure;
use lane::Lane;
use membership::Membership;
pub use membership::View;
use pump::COMMAND_WAIT;
use reads::Reads;
use slot::{Slot, Standing};
pub use spread::Leader;

/// The pause before a store that was full or out of reach is tried again.
const REST: Duration = Duration::from_millis(500);
/// More than this between two looks at the clock is a jump, since whoever carries the driver looks every second: the
/// clock was stepped, or we were stopped. Nobody is silent or too slow for that.
const JUMP: Duration = Duration::from_millis(1200);
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
    Nudged,
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
    Answer {
        ticket: Ticket,
        answer: Result<Answer, Failure>,
    },
    Order {
        worker: WorkerId,
        order: Order,
    },
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
    /// What was decided and is durable, but must not be said before the lease is renewed.
    withheld: Vec<(ShardId, Effect)>,
    /// Commands in the order of their arrival, until their shard takes them.
    intake: VecDeque<Waiting>,
    reports: VecDeque<(WorkerId, Report)>,
    joining: VecDeque<Joining>,
    /// Engine time: it never runs back.
    now: Timestamp,
    /// Elapsed time: it goes on whatever is done to the clock.
    elapsed: Timestamp,
    /// The clock at the last look.
    seen: Timestamp,
    outputs: Vec<Output>,
    counts: Counts,
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
    pub fn new(settings: Settings, now: Timestamp) -> Self {
        let membership = settings.session.clone();
        let membership = membership.map(|me| Membership::new(me, settings.shard_lease, settings.shards, now));
        let standing = || match &membership {
            Some(_) => Standing::Elsewhere { until: now },
            None => Standing::Away,
        };
        let slots: Vec<Slot> = (0..settings.shards).map(|id| Slot::new(ShardId(id), standing())).collect();
        let lanes = (0..settings.lanes.max(1)).map(|_| Lane::default()).collect();
        let mut driver = Driver {
            settings,
            slots,
            pool: Pool::default(),
            lanes,
            reads: Reads::default(),
            membership,
            withheld: Vec::new(),
            intake: VecDeque::new(),
            reports: VecDeque::new(),
            joining: VecDeque::new(),
            now,
            elapsed: now,
            seen: now,
            outputs: Vec::new(),
            counts: Counts::default(),
        };
        driver.pump();
        driver
    }

    /// Takes one input. Call [`Driver::settle_down`] when no more is at hand, then carry the outputs out.
    pub fn step(&mut self, input: Input, now: Timestamp) {
        self.advance(now);
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
                // Whatever it lent before it came anew is no longer ours.
                self.pool.roster.leave(&worker);
                self.joining.push_back(Joining { worker, announced, holding, said: Vec::new() });
            }
            Input::Left { worker } => {
                self.joining.retain(|joining| joining.worker != worker);
                self.pool.roster.leave(&worker);
            }
            Input::Reports { worker, reports } => self.hear(&worker, reports),
            Input::Renewed { result } => self.renewed(result),
            Input::Nudged => self.look_now(),
            Input::Load(load) => self.note_load(load),
            Input::Stop => self.hand_over(),
            Input::Acquired { claims, result } => self.acquired(&claims, result),
            Input::Loaded { shard, result } => self.loaded(shard, result),
            Input::Committed { lane, result } => self.committed(lane, result),
            Input::Fetched { read, result } => self.fetched(read, result),
            Input::Paged { read, shard, result } => self.paged(read, shard, result),
            Input::Released | Input::Wake => {}
        }
    }

    /// Applies all that can be applied now, and sends off what can be sent.
    pub fn settle_down(&mut self, now: Timestamp) {
        self.advance(now);
        self.pump();
    }

    /// Due times go by the clock, but never back. What lasts goes by the time between two looks at it, however it was
    /// set in between.
    fn advance(&mut self, now: Timestamp) {
        self.elapsed = self.elapsed + now.since(self.seen).min(JUMP);
        self.seen = now;
        self.now = self.now.max(now);
    }

    pub fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Whether more commands may be handed in: else the caller lets them wait where they are bounded.
    pub fn has_room(&self) -> bool {
        self.intake.len() < COMMIT_BATCH_MAX
    }

    /// When to call again if nothing happens before; none: there is nothing to wait for.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let in_engine_time = |deadline: Timestamp| self.now + deadline.since(self.elapsed);
        let slots = self.slots.iter().filter_map(|slot| match &slot.standing {
            // Timers that are due but had no room go on with the commit that is under way.
            Standing::Leading(_) => {
                let takes = self.lane_takes_timers(slot.id);
                let due = slot.wake.filter(|at| *at > self.now || takes);
                let deadline = slot.deadline.filter(|at| *at > self.elapsed || takes).map(in_engine_time);
                let again = slot.page_again_at.map(in_engine_time);
                due.into_iter().chain(deadline).chain(again).min()
            }
            Standing::Resting { until, .. } => Some(in_engine_time(*until)),
            _ => None,
        });
        let silence = self.pool.roster.next_silence(self.settings.engine.attempt_lease).map(in_engine_time);
        let expiry =
            self.slots.iter().filter(|slot| !slot.is_leading()).filter_map(|slot| slot.commands.front());
        let expiry = expiry.map(|waiting| in_engine_time(waiting.since + COMMAND_WAIT));
        let renewal = self.membership.as_ref().and_then(Membership::next_renewal).map(in_engine_time);
        slots.chain(silence).chain(expiry).chain(renewal).min()
    }

    /// Engine time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether everything that should be led here is, and the cluster was seen a moment ago.
    pub fn is_ready(&self) -> bool {
        self.is_settled() && self.membership.as_ref().is_none_or(|members| members.is_fresh(self.elapsed))
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
