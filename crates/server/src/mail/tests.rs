//! Two nodes on one store, neither of which can be dialled.

use punctual_core::command::{Key as Idempotency, Refusal, Submit};
use punctual_core::ids::RunId;
use punctual_core::job::Definition;
use punctual_core::name::Namespace;
use punctual_core::task::Task;
use punctual_core::time::Clock;
use punctual_node::cluster::Cluster;
use punctual_node::driver::LoadLimit;
use punctual_node::store_clock::StoreClock;
use punctual_node::{Config, Node};
use punctual_store::memory::Memory;
use punctual_store::{Mailboxes, Store};

use super::*;
use crate::grpc::peer::{Key, OFFER_BYTES};

const SHARDS: u16 = 4;
/// Nothing here waits for its end.
const LEASE: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(20);

struct Scene {
    node: Node,
    post: Post,
    carrying: tokio::task::JoinHandle<()>,
}

impl Scene {
    async fn start(store: &Arc<Memory>, id: i64) -> Scene {
        let key = Key::agree(&**store, &[7; OFFER_BYTES]).await.unwrap();
        let session = Session {
            id: SessionId(id),
            node: "n".into(),
            address: None,
            weight: 100,
            embedded: true,
            load: 0,
        };
        let kept = Arc::clone(store) as Arc<dyn Store>;
        let post = Post::new(&session, Arc::clone(store) as _, Dialled::new(key));
        let clock = Arc::new(StoreClock::new());
        let (sessions, peers) = (Arc::clone(store) as Arc<_>, Arc::new(post.clone()));
        let cluster = Cluster {
            session,
            sessions,
            peers,
            clock: Arc::clone(&clock),
            patience: PATIENCE,
            load_limit: LoadLimit::default(),
        };
        cluster.leases(&*kept).await.unwrap();
        let node = Node::start(Config {
            store: kept,
            clock: clock as Arc<dyn Clock>,
            lanes: 1,
            attempt_lease: 2 * LEASE,
            records: true,
            shard_lease: LEASE,
            cluster: Some(cluster),
            attempt_keys: None,
            channels: None,
        });
        let node = node.unwrap();
        let carrying = tokio::spawn(post.clone().carry(node.handle()));
        Scene { node, post, carrying }
    }

    async fn leads(&self, shards: usize) {
        let leads = self.node.handle();
        let leads = leads.wait_until(|status| status.ready && status.shards_led == shards);
        assert!(timeout(PATIENCE, leads).await.unwrap());
    }

    /// Ends the driver, and with it the task that carries its mail.
    async fn end(self) {
        self.node.shut_down().await;
        timeout(PATIENCE, self.carrying).await.unwrap().unwrap();
    }
}

fn submit(key: &str) -> Command {
    Command::Submit(Submit {
        namespace: Namespace::default(),
        definition: Arc::new(Definition::of(Task::Noop)),
        due: None,
        key: Some(Idempotency { text: key.into(), kept: LEASE * 3600 }),
        spread: 0,
    })
}

/// The first leads everything; the second has just come.
async fn two(store: &Arc<Memory>) -> (Scene, Scene) {
    let first = Scene::start(store, 1).await;
    first.leads(usize::from(SHARDS)).await;
    let second = Scene::start(store, 2).await;
    second.leads(0).await;
    (first, second)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_reaches_a_leader_that_cannot_be_dialled() {
    let store = Arc::new(Memory::new(SHARDS));
    let (first, second) = two(&store).await;
    for number in 0..8 {
        let made = match second.node.handle().command(submit(&format!("key-{number}"))).await.unwrap() {
            Answer::Run(run) => run.id,
            other => panic!("{other:?}"),
        };
        let again = first.node.handle().command(submit(&format!("key-{number}"))).await.unwrap();
        assert_eq!(again, Answer::Existing(made));
    }
    let run = RunId(77);
    let refused = second
        .node
        .handle()
        .command(Command::CancelRun {
            namespace: Namespace::default(),
            run,
            now: false,
            by: None,
            comment: Box::default(),
        })
        .await;
    assert_eq!(refused, Err(Failure::Refused(Refusal::NoSuchRun(run))));
    first.end().await;
    second.end().await;
    for session in [1, 2] {
        let left = store.receive_mail(SessionId(session), &[], 100).await.unwrap();
        // What was said at the very end goes with time.
        assert!(left.iter().all(|mail| mail.number > 8), "what was taken is removed: {left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_come_is_not_known_and_not_waited_for() {
    let store = Arc::new(Memory::new(SHARDS));
    let scene = Scene::start(&store, 1).await;
    let asked = scene.post.ask("by mail to 99", &submit("a"), Duration::from_millis(200)).await;
    assert!(matches!(asked, Err(Failure::Unknown(_))), "{asked:?}");
    assert!(scene.post.0.lock().is_empty());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_passed_over() {
    let store = Arc::new(Memory::new(SHARDS));
    let (first, second) = two(&store).await;
    let mail =
        |number, body: &[u8]| Mail { to: SessionId(1), from: SessionId(3), number, body: body.to_vec() };
    let unknown = MailBody { said: None }.encode_to_vec();
    store.send_mail(&[mail(1, b"\xff\xff"), mail(2, &unknown)], KEPT).await.unwrap();
    second.node.handle().command(submit("after")).await.unwrap();
    first.end().await;
    second.end().await;
}
