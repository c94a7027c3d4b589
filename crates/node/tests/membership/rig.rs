//! Several drivers on one store, in one thread, with a clock that the test moves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Order, Report};
use punctual_core::command::{Answer, Command, Expect, PutJob, Submit};
use punctual_core::ids::{RunId, SessionId, ShardId, Token, WorkerId};
use punctual_core::job::{Definition, Overlap};
use punctual_core::name::Namespace;
use punctual_core::queue::{Add, Ask, Body, NewMessage, QueueKey};
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Task;
use punctual_core::time::{Clock, ManualClock};
use punctual_core::worker::Announcement;
use punctual_engine::Ticket;
use punctual_node::Failure;
use punctual_node::driver::{Leader, Settings, View};
use punctual_node::{Driver, Input, Output};
use punctual_store::memory::Memory;
use punctual_store::{Reads, RunFilter, Session, Sessions, Shards};

pub(crate) const SHARDS: u16 = 16;
pub(crate) const LANES: u16 = 2;
pub(crate) const STEP: Duration = Duration::from_millis(100);

pub(crate) struct Node {
    pub(crate) driver: Driver,
    pub(crate) session: Session,
    /// The process is paused: it does nothing, and does not know it afterwards.
    pub(crate) stopped: bool,
    pub(crate) dead: bool,
    /// Renewals get no answer.
    pub(crate) cut: bool,
    /// Results that arrived while it was paused.
    inbox: VecDeque<Input>,
    pub(crate) orders: Vec<Order>,
    pub(crate) answers: BTreeMap<Ticket, Result<Answer, Failure>>,
    /// Results that the test holds back, and the condition that selects them.
    pub(crate) held: Vec<Input>,
    pub(crate) holds: fn(&Input) -> bool,
}

pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) store: Memory,
    pub(crate) nodes: Vec<Node>,
}

impl World {
    pub(crate) fn new() -> World {
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let store = Memory::with_clock(SHARDS, Arc::new(clock.clone()));
        World { clock, store, nodes: Vec::new() }
    }

    /// A cluster of `nodes` nodes in which every shard has its final leader.
    pub(crate) async fn of(nodes: usize) -> World {
        let mut world = World::new();
        for _ in 0..nodes {
            world.join();
        }
        world.pass(Duration::from_secs(30)).await;
        world
    }

    pub(crate) fn join(&mut self) -> usize {
        let index = self.nodes.len();
        let session = Session {
            id: SessionId(i64::try_from(index).unwrap() + 1),
            node: Arc::from(format!("n{index}")),
            address: Some(Arc::from(format!("n{index}:7400"))),
            weight: 100,
            embedded: false,
            load: 0,
        };
        let settings = Settings {
            shards: SHARDS,
            lanes: usize::from(LANES),
            shard_lease: Duration::from_secs(3),
            session: Some(session.clone()),
            commit_batch: 4096,
            engine: punctual_engine::Settings::default(),
        };
        self.nodes.push(Node {
            driver: Driver::new(settings, self.clock.moment()),
            session,
            stopped: false,
            dead: false,
            cut: false,
            inbox: VecDeque::new(),
            orders: Vec::new(),
            answers: BTreeMap::new(),
            held: Vec::new(),
            holds: |_| false,
        });
        index
    }

    /// Lets time pass in small steps; every node acts in each step.
    pub(crate) async fn pass(&mut self, span: Duration) {
        let end = self.clock.now() + span;
        while self.clock.now() < end {
            self.clock.advance(STEP);
            self.settle().await;
        }
    }

    pub(crate) async fn settle(&mut self) {
        for index in 0..self.nodes.len() {
            self.act(index).await;
        }
    }

    pub(crate) async fn act(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.stopped || node.dead {
            return;
        }
        let now = self.clock.moment();
        while let Some(input) = node.inbox.pop_front() {
            node.driver.step(input, now);
        }
        node.driver.step(Input::Wake, now);
        node.driver.settle_down(now);
        self.carry(index).await;
    }

    pub(crate) async fn give(&mut self, index: usize, input: Input) {
        let now = self.clock.moment();
        self.nodes[index].driver.step(input, now);
        self.nodes[index].driver.settle_down(now);
        self.carry(index).await;
    }

    pub(crate) async fn carry(&mut self, index: usize) {
        loop {
            let outputs = self.nodes[index].driver.outputs();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                let Some(input) = self.perform(index, output).await else { continue };
                if (self.nodes[index].holds)(&input) {
                    self.nodes[index].held.push(input);
                    continue;
                }
                self.nodes[index].driver.step(input, self.clock.moment());
            }
            self.nodes[index].driver.settle_down(self.clock.moment());
        }
    }

    pub(crate) async fn perform(&mut self, index: usize, output: Output) -> Option<Input> {
        Some(match output {
            Output::Renew { session, ttl } => {
                if self.nodes[index].cut {
                    return None;
                }
                let members = Some(self.store.renew(&session, ttl).await.unwrap());
                let leases = self.store.leases().await.unwrap();
                Input::Renewed { result: Ok(View { members, leases, refusing: vec![], is_time_known: true }) }
            }
            Output::Release { shards, heir } => {
                self.store.release(&shards, heir).await.unwrap();
                let heir = self.nodes.iter().position(|node| Some(node.session.id) == heir);
                if let Some(heir) = heir {
                    self.nodes[heir].inbox.push_back(Input::ClusterChanged);
                }
                Input::Released
            }
            Output::Acquire { by, claims } => {
                let result = self.store.acquire(by, &claims).await;
                Input::Acquired { claims, result }
            }
            Output::Load { shard, epoch } => {
                Input::Loaded { shard, result: self.store.load(shard, epoch).await }
            }
            Output::Commit { lane, batches } => {
                Input::Committed { lane, result: self.store.commit(batches).await }
            }
            Output::Fetch { read, wants } => Input::Fetched { read, result: self.store.fetch(wants).await },
            Output::Page { read, shard, after, limit } => {
                Input::Paged { read, shard, result: self.store.due(shard, after, limit).await }
            }
            Output::ReadMessages { read, shard, queue, after, limit } => {
                let result = self.store.backlog(shard, queue, after, limit).await;
                Input::MessagesRead { read, shard, result }
            }
            Output::Answer { ticket, answer } => {
                self.nodes[index].answers.insert(ticket, answer);
                return None;
            }
            Output::Order { order, .. } => {
                self.nodes[index].orders.push(order);
                return None;
            }
            Output::EndSession { session } => {
                self.store.leave(session).await.unwrap();
                return None;
            }
            Output::CrossShard(request) => panic!("no job here delivers into a queue: {request:?}"),
            Output::Refuse { why, .. } | Output::Fail { why } => panic!("{why}"),
        })
    }

    pub(crate) fn led(&self, index: usize) -> BTreeSet<u16> {
        let driver = &self.nodes[index].driver;
        (0..SHARDS).filter(|shard| driver.shard(ShardId(*shard)).is_some()).collect()
    }

    /// Every shard is led by exactly one running node.
    pub(crate) fn check_spread(&self) {
        let mut all = Vec::new();
        for (index, _) in self.nodes.iter().enumerate().filter(|(_, node)| !node.dead && !node.stopped) {
            all.extend(self.led(index));
        }
        all.sort_unstable();
        assert_eq!(all, (0..SHARDS).collect::<Vec<_>>());
    }

    /// A worker without attempts joins and lends its slots.
    pub(crate) async fn employ(&mut self, index: usize, worker: &WorkerId) {
        self.join_with(index, worker, Vec::new()).await;
        let reports = vec![Report::Lent { total: 100 }];
        self.give(index, Input::Reports { worker: worker.clone(), reports }).await;
    }

    /// A worker joins and names the attempts that it has, also in the heartbeat that follows.
    pub(crate) async fn join_with(&mut self, index: usize, worker: &WorkerId, holding: Vec<(RunId, Token)>) {
        let announced = Announcement::of(100);
        let reports = vec![Report::Alive { attempts: holding.clone() }];
        self.give(index, Input::Joined { worker: worker.clone(), announced, holding }).await;
        self.give(index, Input::Reports { worker: worker.clone(), reports }).await;
    }

    /// Gives a node the results that were held back.
    pub(crate) async fn let_through(&mut self, index: usize) {
        self.nodes[index].holds = |_| false;
        for input in std::mem::take(&mut self.nodes[index].held) {
            self.give(index, input).await;
        }
    }

    /// Node 0 cannot reach the store for this long.
    pub(crate) async fn lose_store(&mut self, span: Duration) {
        self.nodes[0].cut = true;
        self.pass(span).await;
    }

    /// The store is back, and node 0 renews its session.
    pub(crate) async fn find_store(&mut self) {
        self.nodes[0].cut = false;
        let lost = punctual_store::Error::Unreachable("no route".to_owned());
        self.give(0, Input::Renewed { result: Err(lost) }).await;
        self.pass(Duration::from_secs(1)).await;
    }

    pub(crate) async fn runs(&self) -> usize {
        self.store.runs(&RunFilter::default(), None, 10_000).await.unwrap().len()
    }

    pub(crate) async fn put_jobs(&mut self, count: u64) {
        for job in 0..count {
            let command = every_second(job, self.clock.now());
            let shard = command.shard(SHARDS);
            let leader = (0..self.nodes.len())
                .find(|index| self.nodes[*index].driver.leader(shard) == Leader::Here)
                .unwrap();
            self.give(leader, Input::Command { ticket: Ticket(job), command }).await;
            assert!(self.nodes[leader].answers[&Ticket(job)].is_ok());
        }
    }
}

pub(crate) fn every_second(job: u64, start: Timestamp) -> Command {
    let schedule = Schedule { start: Some(start), ..Schedule::new(When::Every(Duration::from_secs(1))) };
    Command::PutJob(PutJob {
        namespace: Namespace::default(),
        name: format!("job-{job}").parse().unwrap(),
        definition: Arc::new(Definition {
            schedules: vec![schedule],
            overlap: Overlap::Allow,
            ..Definition::of(Task::Noop)
        }),
        expect: Expect::Absent,
    })
}

/// A run that is due at once.
pub(crate) fn submit() -> Command {
    let definition = Arc::new(Definition::of(Task::Noop));
    Command::Submit(Submit { namespace: Namespace::default(), definition, due: None, key: None, spread: 0 })
}

/// A message that may be taken after four seconds.
pub(crate) fn add_with_delay() -> Command {
    let message = NewMessage {
        body: Body::from(&b"body"[..]),
        delay: Duration::from_secs(4),
        retry: Duration::from_secs(60),
        ttl: Duration::from_secs(3600),
        priority: 0,
        max_len: None,
        key: None,
    };
    let queue = QueueKey { namespace: Namespace::default(), name: "orders".parse().unwrap() };
    Command::Queue(Ask::Add(Add { queue, messages: vec![message] }))
}
