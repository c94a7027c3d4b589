//! `punctual queue work`: runs a command for each message.
//!
//! One loop takes as many messages as there are free slots. Each message is a task that runs the command,
//! asks for more time while it runs, and settles the message at the end. A message is acknowledged only after
//! its command succeeded, so it is worked on at least once, whatever happens to this process.

use std::env;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use punctual_client::{Client, Error};
use punctual_core::name::Namespace;
use punctual_core::queue::QueueName;
use punctual_core::schedule::format_duration;
use punctual_wire::rest::{ActOnMessages, Code, MessageAction, Take, Taken};
use punctual_wire::text::Span;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::Session;
use super::super::command::{End, GRACE, Printing, Running};
use super::super::failure::Failure;
use super::super::serving::asked_to_stop;
use super::super::time::duration;
use super::turn::Turn;

/// How long one request waits for a message, and so how long a stop takes when the queue is empty.
const WAIT: Duration = Duration::from_secs(2);
/// The pause before an unreachable server is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// A command that ends sooner needs no extension.
const FIRST_KEEP: Duration = Duration::from_millis(250);
const KEEP_MIN: Duration = Duration::from_millis(100);
/// Tries to settle a message, before it is left to be redelivered.
const SETTLE_TRIES: u32 = 20;

#[derive(Debug, Args)]
pub(crate) struct Work {
    pub(crate) queue: QueueName,
    /// Kill a command that takes longer, with all processes it started, and give its message back
    #[arg(long, value_name = "SPAN", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Commands that may run at once
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) slots: u16,
    /// Run one command at a time and in order, over all workers of this queue with this flag
    #[arg(long, conflicts_with = "slots")]
    pub(crate) single: bool,
    /// Redeliver a message this long after its command failed; with --single the other messages wait for it
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = duration)]
    pub(crate) nack_delay: Duration,
    /// End when the queue is empty
    #[arg(long)]
    pub(crate) drain: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// What the task of every message needs.
#[derive(Debug)]
struct Shop {
    client: Client,
    namespace: Namespace,
    work: Work,
    /// Becomes true at the second stop request: running commands are stopped and their messages returned at once.
    hurry: watch::Receiver<bool>,
    done: AtomicU64,
    failed: AtomicU64,
}

impl Work {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let (stop_in, stop) = watch::channel(false);
        let (hurry_in, hurry) = watch::channel(false);
        let signals = tokio::spawn(async move {
            // An error means that signals cannot be received; then this way to stop does not exist.
            if asked_to_stop(stop_in.clone()).await.is_ok() {
                hurry_in.send_replace(true);
            }
            std::future::pending::<()>().await;
        });
        let shop = Arc::new(Shop {
            client: session.client.clone(),
            namespace: session.namespace.clone(),
            work: self,
            hurry,
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let worked =
            if shop.work.single { shop.one_at_a_time(session, &stop).await } else { shop.many(&stop).await };
        signals.abort();
        let (done, failed) = (shop.done.load(Ordering::Relaxed), shop.failed.load(Ordering::Relaxed));
        eprintln!("done with {done} messages, gave back {failed}");
        worked
    }
}

impl Shop {
    async fn many(self: &Arc<Self>, stop: &watch::Receiver<bool>) -> Result<(), Failure> {
        let mut tasks = JoinSet::new();
        let slots = usize::from(self.work.slots);
        // Without --single there is no lease to lose.
        let (_nobody, lost) = watch::channel(false);
        let mut reached = false;
        let worked = loop {
            if tasks.len() >= slots {
                tasks.join_next().await;
                continue;
            }
            while tasks.try_join_next().is_some() {}
            if *stop.borrow() {
                break Ok(());
            }
            let free = u32::try_from(slots - tasks.len()).unwrap_or(1);
            let messages = match self.take(free).await {
                Ok(messages) => messages,
                Err(error) if reached && may_pass(&error) => {
                    eprintln!("warning: {error}; asking again");
                    sleep(PAUSE).await;
                    continue;
                }
                Err(error) => break Err(error.into()),
            };
            reached = true;
            if *stop.borrow() {
                self.return_all(&messages).await;
                break Ok(());
            }
            if messages.is_empty() && self.work.drain && tasks.is_empty() {
                break Ok(());
            }
            for message in messages {
                let (shop, lost) = (Arc::clone(self), lost.clone());
                tasks.spawn(async move { shop.handle(&message, lost).await });
            }
        };
        while tasks.join_next().await.is_some() {}
        worked
    }

    async fn one_at_a_time(
        self: &Arc<Self>,
        session: &Session,
        stop: &watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        let (mut turn, mut reached): (Option<Turn>, bool) = (None, false);
        let worked = loop {
            if *stop.borrow() {
                break Ok(());
            }
            turn = turn.filter(|turn| !turn.is_lost());
            let step = match &turn {
                None => Turn::ask(session, self.work.queue.as_str()).await.map(|ours| {
                    turn = ours;
                    None
                }),
                Some(_) => self.take(1).await.map(Some),
            };
            let messages = match step {
                Ok(None) => {
                    reached = true;
                    continue;
                }
                Ok(Some(messages)) => messages,
                Err(error) if reached && may_pass(&error) => {
                    eprintln!("warning: {error}; asking again");
                    sleep(PAUSE).await;
                    continue;
                }
                Err(error) => break Err(error.into()),
            };
            let Some(ours) = turn.as_ref().filter(|turn| !turn.is_lost() && !*stop.borrow()) else {
                self.return_all(&messages).await;
                continue;
            };
            if messages.is_empty() && self.work.drain {
                break Ok(());
            }
            for message in &messages {
                if !self.handle(message, ours.lost()).await {
                    // The message is the first in its queue again, and the others wait behind it.
                    sleep(self.work.nack_delay).await;
                }
            }
        };
        if let Some(turn) = turn {
            turn.give_back().await;
        }
        worked
    }

    async fn take(&self, count: u32) -> Result<Vec<Taken>, Error> {
        let take = Take { count: Some(count), wait: Some(Span(WAIT)), ..Take::default() };
        let taken = self.client.take_messages(&self.namespace, self.work.queue.as_str(), take).await?;
        Ok(taken.items)
    }

    /// Runs the command and settles the message. `false` means that the command failed.
    async fn handle(&self, message: &Taken, mut lost: watch::Receiver<bool>) -> bool {
        let mut hurry = self.hurry.clone();
        let mut running = match Running::start(
            &self.work.command,
            &environment(&self.namespace, message),
            &message.bytes(),
            Printing::Inherited,
        )
        .await
        {
            Ok(running) => running,
            Err(error) => {
                eprintln!("warning: `{}` could not be started: {error}", self.work.command[0]);
                self.give_back(message).await;
                return false;
            }
        };
        let ended = tokio::select! {
            end = running.ended() => Some(match end {
                End::Done => Ok(()),
                End::Failed { why, .. } => Err(why),
            }),
            () = self.time_is_over() => {
                let span = format_duration(self.work.timeout.unwrap_or_default());
                Some(Err(format!("not done after {span}")))
            }
            () = self.keep(message) => None,
            () = is_true(&mut hurry) => None,
            () = is_true(&mut lost) => None,
        };
        match ended {
            Some(Ok(())) => {
                self.settle(message, MessageAction::Ack, None).await;
                self.done.fetch_add(1, Ordering::Relaxed);
                true
            }
            Some(Err(why)) => {
                running.stop(GRACE).await;
                eprintln!("warning: {}: {why}, given back", message.id);
                self.give_back(message).await;
                false
            }
            None => {
                running.stop(GRACE).await;
                self.failed.fetch_add(1, Ordering::Relaxed);
                self.settle(message, MessageAction::Nack, None).await;
                true
            }
        }
    }

    async fn give_back(&self, message: &Taken) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        // With --single no delay: a later message must not overtake this one.
        let delay = (!self.work.single).then_some(self.work.nack_delay);
        self.settle(message, MessageAction::Nack, delay).await;
    }

    async fn time_is_over(&self) {
        match self.work.timeout {
            Some(timeout) => sleep(timeout).await,
            None => std::future::pending().await,
        }
    }

    /// Extends the message's time while its command runs.
    async fn keep(&self, message: &Taken) {
        if message.at_most_once {
            return std::future::pending().await;
        }
        sleep(FIRST_KEEP).await;
        loop {
            let pause = match self.client.working(&self.namespace, &message.id).await {
                Ok(postponed) => postponed.postponed.0 / 3,
                // The message may be redelivered while the command runs: delivery is at least once.
                Err(error) if !may_pass(&error) => return std::future::pending().await,
                Err(_) => PAUSE,
            };
            sleep(pause.max(KEEP_MIN)).await;
        }
    }

    async fn settle(&self, message: &Taken, action: MessageAction, delay: Option<Duration>) {
        let act = ActOnMessages { action, ids: vec![message.id.clone()], delay: delay.map(Span) };
        for _ in 0..SETTLE_TRIES {
            match self.client.act_on_messages(&self.namespace, &act).await {
                Ok(_) => return,
                Err(error) if may_pass(&error) && !*self.hurry.borrow() => sleep(PAUSE).await,
                Err(error) => {
                    eprintln!("warning: {}: {error}; it may be delivered again", message.id);
                    return;
                }
            }
        }
        eprintln!("warning: {}: the server does not answer; it may be delivered again", message.id);
    }

    /// Returns messages that were taken but not begun.
    async fn return_all(&self, messages: &[Taken]) {
        for message in messages {
            self.settle(message, MessageAction::Return, None).await;
        }
    }
}

/// Our environment, plus the variables about the message.
fn environment(namespace: &Namespace, message: &Taken) -> Vec<(OsString, OsString)> {
    let own = [
        ("PUNCTUAL_MESSAGE_ID", message.id.clone()),
        ("PUNCTUAL_QUEUE", message.queue.clone()),
        ("PUNCTUAL_NAMESPACE", namespace.to_string()),
        ("PUNCTUAL_DELIVERIES", message.deliveries().to_string()),
    ];
    let own = own.into_iter().map(|(name, value)| (name.into(), value.into()));
    env::vars_os().chain(own).collect()
}

async fn is_true(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|flag| *flag).await.is_err() {
        // The sender is gone, so the flag never becomes true.
        std::future::pending::<()>().await;
    }
}

/// Whether a retry may help.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Problem(problem) => {
            matches!(problem.code, Code::Unavailable | Code::TooManyConnections | Code::Full | Code::Internal)
        }
        Error::Unreachable { .. } | Error::BrokenOff { .. } => true,
        Error::Strange { .. } => false,
    }
}
