//! Nodes on one memory store, and peers that the test controls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::command::{Answer, Command, Key, Submit};
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::task::Task;
use punctual_core::time::ManualClock;
use punctual_node::{Config, Failure, Forwarding, Handle, Leader, Leaders, Node, Peers};
use punctual_store::Store;
use punctual_store::memory::Memory;
use tokio::sync::watch;

pub(crate) const SHARDS: u16 = 4;
/// The address of a node that cannot be reached.
pub(crate) const GONE: &str = "gone:1";
/// Long enough for everything that should happen.
pub(crate) const LONG: Duration = Duration::from_secs(30);

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub(crate) fn store() -> Arc<Memory> {
    Arc::new(Memory::new(SHARDS))
}

fn config(store: &Arc<Memory>) -> Config {
    Config {
        store: Arc::clone(store) as Arc<dyn Store>,
        clock: Arc::new(ManualClock::at(NOW)),
        lanes: 1,
        attempt_lease: Duration::from_secs(15),
        records: true,
        shard_lease: Duration::from_secs(3),
        cluster: None,
        attempt_keys: None,
        channels: None,
    }
}

/// A node of a cluster that leads every shard, and the sender that can change the leaders.
pub(crate) async fn leading(store: &Arc<Memory>) -> (Node, watch::Sender<Leaders>) {
    let (lead, leaders) = watch::channel(Leaders::alone(SHARDS));
    let forwarding =
        Forwarding { leaders, peers: Arc::new(Told::default()), patience: LONG, schedules: true };
    let node = Node::start_in(forwarding, config(store)).unwrap();
    assert!(node.handle().wait_until(|status| status.ready && status.shards_led > 0).await);
    (node, lead)
}

/// A node that leads nothing.
pub(crate) fn passing_on(
    store: &Arc<Memory>,
    peers: Arc<dyn Peers>,
    patience: Duration,
) -> (Node, watch::Sender<Leaders>) {
    let (lead, leaders) = watch::channel(Leaders::all(SHARDS, &Leader::Nobody));
    let forwarding = Forwarding { leaders, peers, patience, schedules: false };
    (Node::start_in(forwarding, config(store)).unwrap(), lead)
}

pub(crate) fn at(address: &str) -> Leaders {
    Leaders::all(SHARDS, &Leader::At(address.into()))
}

/// What happens to one command that is sent to a peer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fate {
    /// It is carried out and answered.
    Answered,
    /// It is carried out, and the answer is lost.
    AnswerLost,
    /// It is lost on its way; the sender cannot tell this from a lost answer.
    Lost,
    /// It cannot be sent.
    Unreached,
}

/// Peers in this process, with a fate for each command in turn; commands after the last fate are answered.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) leader: Option<Handle>,
    pub(crate) fates: Mutex<VecDeque<Fate>>,
    /// The addresses that were asked.
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Told {
    pub(crate) fn new(leader: Handle, fates: &[Fate]) -> Arc<Told> {
        let fates = Mutex::new(fates.iter().copied().collect());
        Arc::new(Told { leader: Some(leader), fates, asked: Mutex::default() })
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl Peers for Told {
    async fn ask(&self, address: &str, command: &Command, _: Duration) -> Result<Answer, Failure> {
        self.asked.lock().unwrap().push(address.to_owned());
        if address == GONE {
            return Err(Failure::NotLed("cannot be reached".to_owned()));
        }
        let fate = self.fates.lock().unwrap().pop_front().unwrap_or(Fate::Answered);
        let leader = self.leader.as_ref().filter(|_| fate != Fate::Unreached);
        let Some(leader) = leader else { return Err(Failure::NotLed("cannot be reached".to_owned())) };
        if fate == Fate::Lost {
            return Err(Failure::Unknown("lost".to_owned()));
        }
        let answer = leader.command_here(command.clone()).await;
        if fate == Fate::AnswerLost { Err(Failure::Unknown("lost".to_owned())) } else { answer }
    }
}

pub(crate) fn submit(key: Option<&str>) -> Command {
    Command::Submit(Submit {
        namespace: Namespace::default(),
        definition: Arc::new(Definition::of(Task::Noop)),
        due: None,
        key: key.map(|text| Key { text: text.into(), kept: Duration::from_secs(60) }),
        spread: 1,
    })
}
