use punctual_core::ids::{RunId, Token};
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::run::{Part, Trigger};
use punctual_core::task::{Params, Task};
use punctual_core::worker::Announcement;
use punctual_wire::grpc::OrderWriter;

use super::*;
use crate::order::Word;

const LEASE: Duration = Duration::from_secs(15);
const SLOTS: usize = 2;

/// A hub without streams, linked to one node.
struct Rig {
    hub: Hub,
    link: LinkId,
    told: mpsc::Receiver<Word>,
    _chunks: mpsc::UnboundedSender<Pending>,
}

impl Rig {
    async fn admitted() -> Rig {
        let (orders, told) = mpsc::channel(64);
        let (_, reports) = mpsc::channel(1);
        let (chunks_in, chunks) = mpsc::unbounded_channel();
        let settings = Settings {
            servers: Vec::new(),
            near: None,
            token: None,
            ca: None,
            name: "w".to_owned(),
            life: 1,
            version: String::new(),
            announcement: Announcement::of(SLOTS),
            drain: Duration::ZERO,
        };
        let handle = Handle { orders, shutdown: Arc::new(watch::channel(false).0) };
        let status = watch::channel(Status::default()).0;
        let mut hub = Hub::new(Arc::new(settings), handle, reports, chunks, status);
        let (link, _) = hub.peers.add("http://node:7400", true).unwrap();
        let heartbeat_ms = u64::try_from(LEASE.as_millis() / 3).unwrap();
        let welcome = v1::Welcome { node: "one".to_owned(), heartbeat_ms, ..Default::default() };
        hub.welcomed(link, welcome, Outbox::default(), oneshot::channel().0).await;
        hub.tell(vec![Report::Alive { attempts: Vec::new() }]);
        hub.message(link, v1::FromNode { admitted: true, ..Default::default() }).await;
        hub.lend();
        Rig { hub, link, told, _chunks: chunks_in }
    }

    /// The node says that it heard our newest heartbeat, or that it is so long since it heard one.
    fn was_heard(&mut self, ago: Duration) {
        let peer = self.hub.peers.get_mut(self.link).unwrap();
        peer.heard = Some(Instant::now().checked_sub(ago).unwrap());
    }

    /// A node assigns a run; gives what the worker's loop is told to begin.
    async fn assign(&mut self, run: i64, again: bool) -> Vec<RunId> {
        let order = OrderWriter::default().write(Order::Assign(assignment(RunId(run), again)));
        self.hub.message(self.link, v1::FromNode { orders: vec![order], ..Default::default() }).await;
        let mut begun = Vec::new();
        while let Ok(word) = self.told.try_recv() {
            let Word::Orders(orders) = word else { continue };
            begun.extend(orders.into_iter().filter_map(|order| match order {
                Order::Assign(assignment) => Some(assignment.run),
                _ => None,
            }));
        }
        begun
    }
}

fn assignment(run: RunId, again: bool) -> Assignment {
    Assignment {
        run,
        token: Token(1),
        attempt: 1,
        namespace: Namespace::default(),
        job: None,
        revision: None,
        trigger: Trigger::Manual,
        key: None,
        due: Timestamp::from_millis(7),
        late_from: Timestamp::from_millis(7),
        definition: Arc::new(Definition::of(Task::Noop)),
        params: Params::default(),
        part: Part::default(),
        lease: LEASE,
        again,
    }
}

#[tokio::test]
async fn an_assignment_of_a_node_that_heard_us_a_moment_ago_is_begun() {
    let mut rig = Rig::admitted().await;
    rig.was_heard(LEASE / 2);
    assert_eq!(rig.assign(1, false).await, [RunId(1)]);
    assert_eq!((rig.hub.book.busy(), rig.hub.lender.unused()), (1, SLOTS as u64 - 1));
}

#[tokio::test]
async fn an_assignment_that_is_read_after_its_lease_is_not_begun_and_its_credit_is_used() {
    let mut rig = Rig::admitted().await;
    rig.was_heard(LEASE);
    for again in [false, true] {
        assert_eq!(rig.assign(1, again).await, [], "it may be under way elsewhere");
        assert_eq!((rig.hub.book.busy(), rig.hub.lender.unused()), (0, SLOTS as u64 - 1));
    }
}

#[tokio::test]
async fn what_is_offered_again_after_its_lease_does_not_make_it_longer() {
    let mut rig = Rig::admitted().await;
    assert_eq!(rig.assign(1, false).await, [RunId(1)]);
    rig.was_heard(LEASE);
    let late = Instant::now() + LEASE;
    assert_eq!(rig.assign(1, true).await, []);
    assert_eq!(rig.hub.book.overdue(late, |_| None), [(RunId(1), Token(1))]);
}

#[tokio::test]
async fn an_assignment_that_the_next_leader_offered_first_has_used_its_credit_all_the_same() {
    let mut rig = Rig::admitted().await;
    rig.was_heard(LEASE / 2);
    assert_eq!(rig.assign(1, true).await, [RunId(1)]);
    assert_eq!(rig.hub.lender.unused(), SLOTS as u64, "an offer made again uses none");
    rig.assign(1, false).await;
    assert_eq!(rig.hub.lender.unused(), SLOTS as u64 - 1, "else a slot would be lent that nobody can fill");
}
