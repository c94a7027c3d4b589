//! A lock that is held: renewed in the background, and released when it is dropped.
//!
//! The holder counts its time from the moment at which the last successful request was sent, by the monotonic clock. So it
//! knows that the lock is lost before another owner can get it, even if no server can be reached.
//!
//! The requests are made by a [`Holds`], because a program with an embedded node has no server to ask.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use punctual_core::ids::Fence;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// The pause before a request is repeated.
const AGAIN: Duration = Duration::from_millis(200);
/// Tries to release a lock before it is left to expire.
const RELEASE_TRIES: u32 = 3;

/// What to hold, and how.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The name of the owner that `punctual lock show` shows.
    pub owner: String,
    /// How long the lock is held if this process dies: from 100 ms to a day.
    pub ttl: Duration,
    /// How long to wait for it. `Duration::MAX` means for ever.
    pub wait: Duration,
}

impl Hold {
    /// Holds a lock with a `ttl` of 30 seconds, and waits for it without end.
    pub fn by(owner: impl Into<String>) -> Hold {
        Hold { owner: owner.into(), ttl: Duration::from_secs(30), wait: Duration::MAX }
    }
}

/// The requests about one lock.
pub trait Holds: Send + Sync + 'static {
    type Error: Send;

    /// Waits at most this long; it may be shortened to what one request allows.
    fn acquire(&self, wait: Duration) -> impl Future<Output = Result<Fence, Self::Error>> + Send;

    fn renew(&self, fence: Fence) -> impl Future<Output = Result<(), Self::Error>> + Send;

    fn release(&self, fence: Fence) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whether another owner holds it.
    fn is_held(error: &Self::Error) -> bool;

    /// Whether a repetition may help.
    fn may_pass(error: &Self::Error) -> bool;
}

/// A lock that this process holds. It is released when this is dropped.
#[derive(Debug)]
pub struct HeldLock {
    fence: Fence,
    lost: watch::Receiver<bool>,
    /// Dropped to release the lock.
    release: oneshot::Sender<()>,
    keeping: JoinHandle<()>,
}

impl HeldLock {
    /// A number that is larger for every later holder. Send it to what the lock protects, which then can refuse a holder
    /// that comes late.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Whether the lock may have ended, so that its work must stop.
    pub fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    /// Returns when the lock may have ended. It can be dropped and called again.
    pub async fn lost(&self) {
        // An error means that the task has ended, so the lock is renewed no more.
        drop(self.lost.clone().wait_for(|lost| *lost).await);
    }

    /// Releases the lock, and waits until the next caller can get it.
    pub async fn release(self) {
        let HeldLock { release, keeping, .. } = self;
        drop(release);
        drop(keeping.await);
    }
}

/// Acquires a lock and holds it.
pub async fn hold<H: Holds>(ttl: Duration, wait: Duration, lock: H) -> Result<HeldLock, H::Error> {
    let until = Instant::now().checked_add(wait);
    let mut is_reached = false;
    let (fence, since) = loop {
        let asked = Instant::now();
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(asked));
        match lock.acquire(left).await {
            // After a wait, the time that is left is known only by a renewal.
            Ok(fence) if asked.elapsed() > ttl / 3 => {
                let asked = Instant::now();
                match lock.renew(fence).await {
                    Ok(()) => break (fence, asked),
                    Err(error) if left.is_zero() => return Err(error),
                    Err(_) => {}
                }
            }
            Ok(fence) => break (fence, asked),
            Err(error) if left.is_zero() => return Err(error),
            Err(error) if H::is_held(&error) => is_reached = true,
            Err(error) if is_reached && H::may_pass(&error) => sleep(AGAIN).await,
            Err(error) => return Err(error),
        }
    };
    let (release, released) = oneshot::channel();
    let (lost_in, lost) = watch::channel(false);
    let keeping = tokio::spawn(async move {
        tokio::select! {
            () = keep(&lock, fence, ttl, since) => drop(lost_in.send_replace(true)),
            _ = released => {}
        }
        for _ in 0..RELEASE_TRIES {
            match lock.release(fence).await {
                Err(error) if H::may_pass(&error) => sleep(AGAIN).await,
                _ => return,
            }
        }
    });
    Ok(HeldLock { fence, lost, release, keeping })
}

/// Renews a lock. Returns when it is lost, or so near to its end that its work must stop.
async fn keep<H: Holds>(lock: &H, fence: Fence, ttl: Duration, mut since: Instant) {
    loop {
        let end = since + ttl * 9 / 10;
        let mut next = since + ttl / 3;
        loop {
            sleep_until(next.min(end)).await;
            let asked = Instant::now();
            match timeout_at(end, lock.renew(fence)).await {
                Ok(Ok(())) => {
                    since = asked;
                    break;
                }
                Ok(Err(error)) if H::may_pass(&error) && Instant::now() < end => {
                    next = Instant::now() + AGAIN.min(ttl / 10);
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Refused {
        Held,
        Unreachable,
        Outdated,
    }

    /// A lock whose answers a test decides. Once there are none left, every request succeeds.
    #[derive(Debug, Clone, Default)]
    struct Scripted {
        acquires: Arc<Mutex<VecDeque<Refused>>>,
        renewals: Arc<Mutex<VecDeque<Refused>>>,
        /// Each request, with the second at which it was made.
        asked: Arc<Mutex<Vec<(&'static str, u64)>>>,
        began: Option<Instant>,
    }

    impl Scripted {
        fn new(acquires: &[Refused], renewals: &[Refused]) -> Scripted {
            let script = |answers: &[Refused]| Arc::new(Mutex::new(answers.iter().copied().collect()));
            let (acquires, renewals) = (script(acquires), script(renewals));
            Scripted { acquires, renewals, began: Some(Instant::now()), ..Scripted::default() }
        }

        fn note(&self, what: &'static str) {
            let second = self.began.map_or(0, |began| began.elapsed().as_secs());
            self.asked.lock().unwrap().push((what, second));
        }

        fn asked(&self) -> Vec<(&'static str, u64)> {
            self.asked.lock().unwrap().clone()
        }
    }

    impl Holds for Scripted {
        type Error = Refused;

        async fn acquire(&self, wait: Duration) -> Result<Fence, Refused> {
            self.note("acquire");
            match self.acquires.lock().unwrap().pop_front() {
                Some(refused) if refused == Refused::Held && !wait.is_zero() => {}
                Some(refused) => return Err(refused),
                None => return Ok(Fence(7)),
            }
            sleep(wait.min(Duration::from_secs(20))).await;
            Err(Refused::Held)
        }

        async fn renew(&self, _: Fence) -> Result<(), Refused> {
            self.note("renew");
            self.renewals.lock().unwrap().pop_front().map_or(Ok(()), Err)
        }

        async fn release(&self, _: Fence) -> Result<(), Refused> {
            self.note("release");
            Ok(())
        }

        fn is_held(error: &Refused) -> bool {
            *error == Refused::Held
        }

        fn may_pass(error: &Refused) -> bool {
            *error == Refused::Unreachable
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_is_renewed_until_it_is_released() {
        let lock = Scripted::new(&[], &[]);
        let held = hold(TTL, Duration::MAX, lock.clone()).await.unwrap();
        assert_eq!(held.fence(), Fence(7));
        sleep(Duration::from_secs(25)).await;
        assert!(!held.is_lost());
        held.release().await;
        assert_eq!(lock.asked(), [("acquire", 0), ("renew", 10), ("renew", 20), ("release", 25)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_lock_is_released() {
        let lock = Scripted::new(&[], &[]);
        drop(hold(TTL, Duration::ZERO, lock.clone()).await.unwrap());
        sleep(Duration::from_secs(1)).await;
        assert_eq!(lock.asked(), [("acquire", 0), ("release", 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_cannot_be_renewed_is_lost_before_its_end() {
        let lock = Scripted::new(&[], &[Refused::Unreachable; 1000]);
        let (began, held) = (Instant::now(), hold(TTL, Duration::MAX, lock).await.unwrap());
        held.lost().await;
        assert!(held.is_lost());
        assert_eq!(began.elapsed().as_secs(), 27, "nine tenths of its time");
    }

    #[tokio::test(start_paused = true)]
    async fn an_outdated_renewal_loses_the_lock_at_once() {
        let lock = Scripted::new(&[], &[Refused::Unreachable, Refused::Outdated]);
        let (began, held) = (Instant::now(), hold(TTL, Duration::MAX, lock).await.unwrap());
        held.lost().await;
        assert_eq!(began.elapsed().as_secs(), 10);
    }

    /// One request waits for 20 s here, and the lock is held for 30 s: its time counts from the renewal.
    #[tokio::test(start_paused = true)]
    async fn a_long_wait_is_several_requests() {
        let lock = Scripted::new(&[Refused::Held, Refused::Unreachable, Refused::Held], &[]);
        let held = hold(TTL, Duration::MAX, lock.clone()).await.unwrap();
        let acquires = [("acquire", 0), ("acquire", 20), ("acquire", 20), ("acquire", 40)];
        assert_eq!(lock.asked(), acquires);
        held.release().await;

        let lock = Scripted::new(&[Refused::Held; 9], &[]);
        let wait = Duration::from_secs(30);
        assert_eq!(hold(TTL, wait, lock.clone()).await.unwrap_err(), Refused::Held);
        assert_eq!(lock.asked(), [("acquire", 0), ("acquire", 20), ("acquire", 30)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answered_is_an_error() {
        let lock = Scripted::new(&[Refused::Unreachable], &[]);
        assert_eq!(hold(TTL, Duration::MAX, lock).await.unwrap_err(), Refused::Unreachable);
    }
}
