//! Notifications over channels that fail: which are tried again, in which order, and how long.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::alert::{NoteChannel, Notification, Occasion, Subject};
use punctual_core::command::Command;
use punctual_core::limits::NOTIFY_FOR;
use punctual_core::name::{Name, Namespace};
use punctual_core::time::ManualClock;
use punctual_node::{AlertChannels, Node};
use punctual_store::memory::Memory;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::rig::{LONG, NOW, node_with_channels};

fn name(text: &str) -> Name {
    text.parse().expect("this is a name")
}

/// A notification that a channel was asked to send. The test answers.
#[derive(Debug)]
struct Attempt {
    notification: Notification,
    answer: oneshot::Sender<Result<(), String>>,
}

impl Attempt {
    /// The channel that the incident is about, and the occasion.
    fn about(&self) -> (Name, Occasion) {
        match &self.notification.incident.subject {
            Subject::Channel(channel) => (channel.clone(), self.notification.occasion),
            other => panic!("{other:?}"),
        }
    }

    fn succeed(self) {
        self.answer.send(Ok(())).expect("the notifier waits");
    }

    fn fail(self) {
        self.answer.send(Err("unreachable".into())).expect("the notifier waits");
    }
}

/// The channels `chat` and `mail`.
#[derive(Debug)]
struct Channels(mpsc::UnboundedSender<Attempt>);

#[async_trait]
impl AlertChannels for Channels {
    fn names(&self) -> Vec<Name> {
        ["chat", "mail"].map(name).to_vec()
    }

    fn defaults(&self) -> Vec<Name> {
        self.names()
    }

    async fn send(&self, _id: i64, notification: &Notification) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let attempt = Attempt { notification: notification.clone(), answer };
        self.0.send(attempt).map_err(|_| "the test is over")?;
        answered.await.map_err(|_| "the test is over")?
    }

    async fn test(&self, _channel: &Name) -> Result<(), String> {
        Ok(())
    }
}

struct Scene {
    node: Node,
    clock: ManualClock,
    attempts: mpsc::UnboundedReceiver<Attempt>,
}

impl Scene {
    async fn new() -> Scene {
        let (send, attempts) = mpsc::unbounded_channel();
        let (store, clock) = (Arc::new(Memory::new(1)), ManualClock::at(NOW));
        let node = node_with_channels(&store, Arc::new(clock.clone()), Some(Arc::new(Channels(send)))).await;
        Scene { node, clock, attempts }
    }

    /// Opens the incident of a channel, or ends it. The other channels are notified.
    async fn note(&self, channel: &str, error: Option<&str>) {
        let (namespace, error) = (Namespace::default(), error.map(Into::into));
        let note = NoteChannel { namespace, channel: name(channel), error };
        self.node.handle().command(Command::NoteChannel(note)).await.expect("noted");
    }

    async fn next(&mut self) -> Attempt {
        timeout(LONG, self.attempts.recv()).await.expect("in time").expect("the node runs")
    }
}

/// Moves the time of the notifier.
async fn pass(span: Duration) {
    tokio::time::pause();
    tokio::time::advance(span).await;
    tokio::time::resume();
}

#[tokio::test]
async fn the_end_of_an_incident_is_sent_after_its_beginning() {
    let mut scene = Scene::new().await;
    scene.note("mail", Some("refused")).await;
    let opened = scene.next().await;
    scene.note("mail", None).await;
    // When this command is answered, the notice of the end waits.
    scene.note("other", Some("refused")).await;
    opened.fail();
    let mut occasions = Vec::new();
    while occasions.len() < 2 {
        let attempt = scene.next().await;
        let (channel, occasion) = attempt.about();
        occasions.extend((channel == name("mail")).then_some(occasion));
        attempt.succeed();
    }
    assert_eq!(occasions, [Occasion::Opened, Occasion::Ended]);
    scene.node.shut_down().await;
}

#[tokio::test]
async fn old_notifications_of_a_failing_channel_are_given_up_at_once() {
    let mut scene = Scene::new().await;
    for _ in 0..20 {
        scene.note("mail", Some("refused")).await;
        scene.note("mail", None).await;
    }
    let first = scene.next().await;
    scene.clock.advance(NOTIFY_FOR);
    first.fail();
    scene.note("mail", Some("refused again")).await;
    let attempt = scene.next().await;
    assert_eq!(&*attempt.notification.incident.error, "refused again");
    attempt.succeed();
    scene.node.shut_down().await;
}

#[tokio::test]
async fn a_channel_that_works_ends_an_incident_that_another_node_opened() {
    let mut scene = Scene::new().await;
    for error in [Some("refused"), None] {
        scene.note("mail", error).await;
        scene.next().await.succeed();
    }
    scene.note("chat", Some("refused")).await;
    scene.next().await.succeed();
    pass(Duration::from_secs(601)).await;
    scene.note("mail", Some("refused")).await;
    loop {
        let attempt = scene.next().await;
        let about = attempt.about();
        attempt.succeed();
        if about == (name("chat"), Occasion::Ended) {
            break;
        }
    }
    scene.node.shut_down().await;
}
