//! The notifier: sends the notifications of the shards that this node leads.
//!
//! A notification is a notice of its shard, which stays until it was sent, or was tried for a day. Each channel has a queue
//! of its own and sends one notification at a time, so those of an incident arrive in order, and a channel that hangs
//! holds up no other and no run. If the node dies, the next leader of the shard sends what is left; a receiver may get a
//! notification twice, with the same id.
//!
//! ```text
//!  notice ──▶ queue of its channel ──sent──▶ confirmed
//!                  ▲        │
//!                  └─ later ┘ failed
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::alert::{NoteChannel, Notification};
use punctual_core::command::Command;
use punctual_core::ids::{RunId, ShardId, made_at};
use punctual_core::limits::NOTIFY_FOR;
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::Ask;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

use crate::failure::Failure;
use crate::handle::Handle;

/// The pause after a failed notification doubles from the first to the last of these.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Failures in a row after which the channel itself is an incident.
const FAILURES_NOTED: u32 = 5;
/// How long the shard of a channel is not told again that the channel works. It must be told again: another node may have
/// opened the incident of the channel, or the shard may not have heard it.
const WORKS_FOR: Duration = Duration::from_secs(600);
/// The pause before a confirmation is repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// The channels of the settings. The wiring implements them over the network.
#[async_trait]
pub trait AlertChannels: Send + Sync + fmt::Debug {
    fn names(&self) -> Vec<Name>;

    /// The channels of alerts that name none.
    fn defaults(&self) -> Vec<Name>;

    /// Sends a notification, within a bounded time. The error is for operators: it says why it was not taken.
    async fn send(&self, id: i64, notification: &Notification) -> Result<(), String>;

    /// Sends a notification that says that it is a test.
    async fn test(&self, channel: &Name) -> Result<(), String>;
}

/// A notification to send.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) number: i64,
    pub(crate) notification: Box<Notification>,
}

#[derive(Debug)]
pub(crate) struct Notifier {
    handle: Handle,
    channels: Option<Arc<dyn AlertChannels>>,
    notices: mpsc::UnboundedReceiver<Notice>,
    /// The notices that wait or are being sent.
    open: BTreeSet<i64>,
    outboxes: BTreeMap<Name, Outbox>,
    under_way: JoinSet<(Notice, Result<Ended, String>)>,
    /// The channel and the notice of each task.
    sending: BTreeMap<Id, (Name, i64)>,
    /// Channels that worked when they were last used, by namespace, and when their shard was told so.
    working: BTreeMap<(Namespace, Name), Instant>,
}

/// What became of a notification.
#[derive(Debug)]
enum Ended {
    Sent,
    /// It was not taken for a day.
    GivenUp,
}

#[derive(Debug, Default)]
struct Outbox {
    waiting: VecDeque<Notice>,
    is_busy: bool,
    failures: u32,
    /// Nothing is sent before then.
    not_before: Option<Instant>,
}

impl Outbox {
    /// Lets notifications of other incidents go before a failed one: one that is never taken must not hold up the others.
    fn put_back(&mut self, failed: Notice) {
        let incident = failed.notification.incident.id;
        self.waiting.push_front(failed);
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let (later, others): (Vec<_>, Vec<_>) =
            waiting.partition(|notice| notice.notification.incident.id == incident);
        self.waiting = others.into_iter().chain(later).collect();
    }

    fn begins_at(&self) -> Option<Instant> {
        let waits = !self.is_busy && !self.waiting.is_empty();
        self.not_before.filter(|_| waits)
    }
}

/// The pause after so many failures in a row.
fn pause(failures: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(PAUSE_MAX)
}

impl Notifier {
    pub(crate) fn new(
        handle: Handle,
        channels: Option<Arc<dyn AlertChannels>>,
        notices: mpsc::UnboundedReceiver<Notice>,
    ) -> Notifier {
        Notifier {
            handle,
            channels,
            notices,
            open: BTreeSet::new(),
            outboxes: BTreeMap::new(),
            under_way: JoinSet::new(),
            sending: BTreeMap::new(),
            working: BTreeMap::new(),
        }
    }

    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            self.begin();
            let next = self.outboxes.values().filter_map(Outbox::begins_at).min();
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                Some(notice) = self.notices.recv() => self.take(notice),
                Some(ended) = self.under_way.join_next_with_id() => match ended {
                    Ok((id, (notice, result))) => self.ended(id, notice, result),
                    Err(error) => self.panicked(error.id(), &error),
                },
                () = at(next) => {}
            }
        }
    }

    fn take(&mut self, notice: Notice) {
        // A shard that was loaded again sends its notices again.
        if self.channels.is_some() && self.open.insert(notice.number) {
            let outbox = self.outboxes.entry(notice.notification.channel.clone()).or_default();
            outbox.waiting.push_back(notice);
        }
    }

    /// Lets each channel send its first notification.
    fn begin(&mut self) {
        let Some(channels) = &self.channels else { return };
        let now = Instant::now();
        for (channel, outbox) in &mut self.outboxes {
            if outbox.is_busy || outbox.not_before.is_some_and(|at| at > now) {
                continue;
            }
            let handle = &self.handle;
            // The next leader of a shard sends its notices.
            while let Some(gone) = outbox.waiting.pop_front_if(|notice| !handle.leads(shard_of(notice))) {
                self.open.remove(&gone.number);
            }
            let Some(notice) = outbox.waiting.pop_front() else { continue };
            outbox.is_busy = true;
            let number = notice.number;
            let channels = (outbox.failures == 0 || !is_old(handle, number)).then(|| Arc::clone(channels));
            let task = self.under_way.spawn(deliver(handle.clone(), channels, notice));
            self.sending.insert(task.id(), (channel.clone(), number));
        }
    }

    fn ended(&mut self, task: Id, notice: Notice, result: Result<Ended, String>) {
        let Some((channel, number)) = self.sending.remove(&task) else { return };
        let namespace = notice.notification.incident.namespace.clone();
        let outbox = self.outboxes.entry(channel.clone()).or_default();
        outbox.is_busy = false;
        match result {
            Ok(Ended::GivenUp) => _ = self.open.remove(&number),
            Ok(Ended::Sent) => {
                (outbox.failures, outbox.not_before) = (0, None);
                self.open.remove(&number);
                let (now, key) = (Instant::now(), (namespace.clone(), channel.clone()));
                if self.working.get(&key).is_none_or(|told_at| *told_at + WORKS_FOR <= now) {
                    self.working.insert(key, now);
                    self.note(NoteChannel { namespace, channel, error: None });
                }
            }
            Err(error) => {
                outbox.failures = outbox.failures.saturating_add(1);
                outbox.not_before = Some(Instant::now() + pause(outbox.failures));
                if is_old(&self.handle, number) {
                    // It is given up next.
                    outbox.waiting.push_front(notice);
                } else {
                    outbox.put_back(notice);
                }
                let failures = outbox.failures;
                warn!(%channel, failures, error, "a notification was not sent, it will be tried again");
                if failures >= FAILURES_NOTED {
                    self.working.remove(&(namespace.clone(), channel.clone()));
                    self.note(NoteChannel { namespace, channel, error: Some(error.into()) });
                }
            }
        }
    }

    fn panicked(&mut self, task: Id, error: &dyn fmt::Display) {
        warn!(%error, "sending a notification ended in a panic");
        if let Some((channel, number)) = self.sending.remove(&task) {
            // The notice stays in the store, and is sent when its shard is loaded again.
            self.open.remove(&number);
            self.outboxes.entry(channel).or_default().is_busy = false;
        }
    }

    /// Tells the shard of the channel whether the channel works. A later failure or success repeats it.
    fn note(&self, note: NoteChannel) {
        let handle = self.handle.clone();
        self.handle.background.run(async move {
            if let Err(failure) = handle.command(Command::NoteChannel(note)).await {
                warn!(%failure, "the incident of a channel was not recorded");
            }
        });
    }
}

fn shard_of(notice: &Notice) -> ShardId {
    RunId(notice.number).shard()
}

/// Waits until then; `None` means for ever.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Whether a notification is given up if its channel fails.
fn is_old(handle: &Handle, notice: i64) -> bool {
    handle.clock.now().since(made_at(notice)) >= NOTIFY_FOR
}

/// Sends a notification and confirms its notice. Without channels it is given up.
async fn deliver(
    handle: Handle,
    channels: Option<Arc<dyn AlertChannels>>,
    notice: Notice,
) -> (Notice, Result<Ended, String>) {
    let (number, channel) = (notice.number, notice.notification.channel.clone());
    let ended = match channels {
        None => {
            warn!(%channel, "a notification was not taken for a day, it is given up");
            Ended::GivenUp
        }
        Some(channels) => {
            if let Err(error) = channels.send(number, &notice.notification).await {
                return (notice, Err(error));
            }
            info!(%channel, "a notification was sent");
            Ended::Sent
        }
    };
    // It is not sent again while this node leads the shard.
    while handle.leads(shard_of(&notice)) {
        match handle.queue(Ask::Told { notice: number }).await {
            Ok(_) | Err(Failure::Refused(_)) => break,
            Err(_) => sleep(AGAIN).await,
        }
    }
    (notice, Ok(ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_five_minutes() {
        let pauses: Vec<u64> = (1..12).map(|failures| pause(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
