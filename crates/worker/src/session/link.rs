//! The stream to one node; reconnects until it is no longer wanted.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use punctual_wire::grpc::{LOG_WINDOW_BYTES, v1};
use rustc_hash::FxHasher;
use tokio::sync::{mpsc, oneshot, watch};

use super::Settings;
use super::dial::{Dialled, Trouble, dial, trouble};
use super::outbox::Outbox;
use crate::driver::LinkId;

/// The pause before reconnecting: exponential backoff with jitter, so that a thousand workers do not reconnect to a
/// restarted node at once.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(4);
/// How long to wait before trying a URL again whose node is already connected by another URL.
const ALIAS_REST: Duration = Duration::from_secs(30);

/// An event for the transport.
#[derive(Debug)]
pub(crate) enum Event {
    /// The node has introduced itself. Messages to it go into this outbox. Unless `wanted` gets true, the stream is
    /// closed, for example because the node is already connected by another URL.
    Welcomed {
        welcome: v1::Welcome,
        outbox: Outbox,
        wanted: oneshot::Sender<bool>,
    },
    Message(v1::FromNode),
    /// The stream has ended or could not be opened.
    Gone(Trouble),
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) url: String,
    pub(crate) settings: Arc<Settings>,
    pub(crate) events: mpsc::Sender<(LinkId, Event)>,
    pub(crate) stop: watch::Receiver<bool>,
}

impl Link {
    pub(crate) async fn run(mut self) {
        let mut failures: u32 = 0;
        loop {
            let outbox = Outbox::new(LOG_WINDOW_BYTES);
            let dialled = tokio::select! {
                () = stopped(&mut self.stop) => return,
                dialled = dial(&self.url, &self.settings, &outbox) => dialled,
            };
            let (why, rest) = match dialled {
                Ok(dialled) => match self.carry(dialled, outbox).await {
                    None => return,
                    Some(Ended::Unwanted) => (None, ALIAS_REST),
                    Some(Ended::Gone(why)) => {
                        failures = 1;
                        (Some(why), self.backoff(failures))
                    }
                },
                Err(why) => {
                    failures = failures.saturating_add(1);
                    (Some(why), self.backoff(failures))
                }
            };
            if let Some(why) = why
                && self.events.send((self.id, Event::Gone(why))).await.is_err()
            {
                return;
            }
            tokio::select! {
                () = stopped(&mut self.stop) => return,
                () = tokio::time::sleep(rest) => {}
            }
        }
    }

    /// Passes on the node's messages until the stream ends. `None` means this link is no longer needed.
    async fn carry(&mut self, dialled: Dialled, outbox: Outbox) -> Option<Ended> {
        let Dialled { welcome, mut incoming } = dialled;
        let (wanted, is_wanted) = oneshot::channel();
        let welcomed = Event::Welcomed { welcome, outbox: outbox.clone(), wanted };
        self.events.send((self.id, welcomed)).await.ok()?;
        // A worker that stops does not read the event any more.
        let is_wanted = tokio::select! {
            is_wanted = is_wanted => is_wanted.ok()?,
            () = stopped(&mut self.stop) => return None,
        };
        if !is_wanted {
            outbox.close();
            return Some(Ended::Unwanted);
        }
        let why = loop {
            let message = tokio::select! {
                message = incoming.message() => message,
                () = stopped(&mut self.stop) => return None,
            };
            match message {
                Ok(Some(message)) => self.events.send((self.id, Event::Message(message))).await.ok()?,
                Ok(None) => break Trouble::Unreachable(format!("{}: the node ended the stream", self.url)),
                Err(status) => break trouble(&self.url, &status),
            }
        };
        outbox.close();
        Some(Ended::Gone(why))
    }

    /// Half of the pause is fixed; the other half depends on worker, URL and number of failures.
    fn backoff(&self, failures: u32) -> Duration {
        backoff(self.settings.life, &self.url, failures)
    }
}

fn backoff(life: u64, url: &str, failures: u32) -> Duration {
    let longest = BACKOFF_MIN.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
    let mut dice = FxHasher::default();
    dice.write_u64(life);
    dice.write_u32(failures);
    dice.write(url.as_bytes());
    let share = u32::try_from(dice.finish() >> 54).unwrap_or(0);
    longest / 2 + longest / 2 * share / 1024
}

enum Ended {
    Unwanted,
    Gone(Trouble),
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means the sender is gone, which is a stop, too.
    drop(stop.wait_for(|stop| *stop).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_reconnect_with_backoff_and_jitter() {
        const WORKERS: u64 = 10_000;
        const PARTS: usize = 16;
        let mut shortest = Duration::ZERO;
        for failures in 1..=20 {
            let longest = BACKOFF_MIN.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX);
            let mut parts = [0_usize; PARTS];
            for worker in 0..WORKERS {
                // Lives come from a good random source.
                let life = worker.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
                let pause = backoff(life, "http://127.0.0.1:7400", failures);
                assert!((longest / 2..=longest).contains(&pause), "{pause:?} after {failures}");
                let share = (pause - longest / 2).as_secs_f64() / (longest / 2).as_secs_f64();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is a share of 16"
                )]
                let part = (share * PARTS as f64) as usize;
                parts[part.min(PARTS - 1)] += 1;
            }
            let even = usize::try_from(WORKERS).unwrap() / PARTS;
            assert!(parts.iter().all(|part| (even / 2..2 * even).contains(part)), "{failures}: {parts:?}");
            assert!(longest >= shortest, "it grows");
            shortest = longest;
        }
        assert_eq!(shortest, BACKOFF_MAX);
    }
}
