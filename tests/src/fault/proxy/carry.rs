//! Carries connections, as the rules of the moment have it.

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::message::{Message, Reader, has};
use super::{Cut, Rules, Shared, Way, Whose, owner};

const CHUNK_BYTES: usize = 64 * 1024;
/// Between two attempts to listen on the old port again.
const LISTEN_AGAIN: Duration = Duration::from_millis(10);

/// How a connection ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// One side hung up; so do we.
    Over,
    /// Both sides are told that it broke.
    Cut,
}

pub(super) async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let place = listener.local_addr().expect("it is bound");
    let mut listener = carried(listener);
    let mut rules = shared.rules.subscribe();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((client, from)) = accepted {
                shared.tally.connections.fetch_add(1, Ordering::Relaxed);
                let wire = Wire::new(&shared, owner::End::new(from, place));
                connections.spawn(wire.live(client));
            },
            () = refuses(&mut rules, true) => {
                drop(listener);
                refuses(&mut rules, false).await;
                listener = loop {
                    match TcpListener::bind(place) {
                        Ok(listener) => break carried(listener),
                        Err(_) => sleep(LISTEN_AGAIN).await,
                    }
                };
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Waits until new connections are refused, or until they are not.
async fn refuses(rules: &mut watch::Receiver<Rules>, wanted: bool) {
    // The sender of the rules lives as long as this task.
    let _ = rules.wait_for(|rules| rules.refusing == wanted).await;
}

fn carried(listener: TcpListener) -> tokio::net::TcpListener {
    listener.set_nonblocking(true).expect("a socket can be told not to block");
    tokio::net::TcpListener::from_std(listener).expect("a socket can be waited for")
}

/// One connection.
struct Wire {
    shared: Arc<Shared>,
    rules: watch::Receiver<Rules>,
    client: owner::End,
    /// How many resets there were before it.
    resets: usize,
    /// The answer to the COMMIT that was passed on is to be lost.
    loses_answer: AtomicBool,
}

impl Wire {
    fn new(shared: &Arc<Shared>, client: owner::End) -> Wire {
        let rules = shared.rules.subscribe();
        let resets = rules.borrow().resets.len();
        Wire { shared: Arc::clone(shared), rules, client, resets, loses_answer: AtomicBool::new(false) }
    }

    async fn live(self, mut client: TcpStream) {
        let mut server = None;
        let end = tokio::select! {
            biased;
            () = self.is_reset() => End::Cut,
            end = self.carry(&mut client, &mut server) => end.unwrap_or(End::Over),
        };
        if end == End::Cut {
            self.shared.tally.cuts.fetch_add(1, Ordering::Relaxed);
            for stream in [Some(client), server].into_iter().flatten() {
                // Closed without a farewell: the other side hears of a reset, or it is gone already.
                let _ = stream.set_zero_linger();
            }
        }
    }

    async fn is_reset(&self) {
        let mut rules = self.rules.clone();
        let mut seen = self.resets;
        loop {
            let resets = rules.borrow_and_update().resets.get(seen..).unwrap_or_default().to_vec();
            seen += resets.len();
            if self.is_one_of(&resets).await {
                return;
            }
            if rules.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn carry(&self, client: &mut TcpStream, server: &mut Option<TcpStream>) -> io::Result<End> {
        self.pass(Way::There).await;
        let Ok(dialled) = TcpStream::connect(self.shared.server).await else { return Ok(End::Cut) };
        let server = server.insert(dialled);
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::select! {
            end = self.there(from_client, to_server) => end,
            end = self.back(from_server, to_client) => end,
        }
    }

    async fn there(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<End> {
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut reader = Reader::new(self.shared.language);
        let mut is_meant = false;
        loop {
            let length = self.read(Way::There, &mut from, &mut buffer).await?;
            let (allowed, is_spent) = self.spend(length);
            reader.push(&buffer[..allowed]);
            let (mut passing, mut is_cut) = (Vec::new(), is_spent);
            while let Some(message) = reader.next() {
                match self.judge(&message, &mut is_meant) {
                    None => {}
                    Some(Cut::Before) => {
                        to.write_all(&passing).await?;
                        return Ok(End::Cut);
                    }
                    Some(Cut::Amid) => is_cut = true,
                    Some(Cut::After) => self.loses_answer.store(true, Ordering::Relaxed),
                    Some(Cut::Held) => {
                        to.write_all(&std::mem::take(&mut passing)).await?;
                        self.is_repaired().await;
                    }
                }
                passing.extend(message.bytes);
            }
            to.write_all(&passing).await?;
            if length == 0 || is_cut {
                return Ok(if is_cut { End::Cut } else { End::Over });
            }
        }
    }

    async fn back(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> io::Result<End> {
        let mut buffer = vec![0; CHUNK_BYTES];
        // What came since COMMIT: an answer may come in pieces.
        let mut answered = Vec::new();
        let mut said = Vec::new();
        loop {
            let length = self.read(Way::Back, &mut from, &mut buffer).await?;
            let (allowed, is_spent) = self.spend(length);
            if self.loses_answer.load(Ordering::Relaxed) {
                answered.extend_from_slice(&buffer[..length]);
                if self.shared.language.is_committed(&answered) {
                    return Ok(End::Cut);
                }
            }
            self.hush(&mut said, &buffer[..allowed]).await;
            to.write_all(&buffer[..allowed]).await?;
            if length == 0 || is_spent {
                return Ok(if is_spent { End::Cut } else { End::Over });
            }
        }
    }

    /// Holds the clients that are to be heard no more when the word for it comes by, perhaps in pieces.
    async fn hush(&self, said: &mut Vec<u8>, bytes: &[u8]) {
        let hush = || self.shared.hush.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((word, whose)) = hush().clone() else { return said.clear() };
        said.extend_from_slice(bytes);
        if has(said, &word) && self.is_one_of(&whose).await {
            *hush() = None;
            let held = whose.into_iter().map(|whose| (Way::There, whose));
            self.shared.rules.send_modify(|rules| rules.held.extend(held));
        } else {
            said.drain(..said.len().saturating_sub(word.len() - 1));
        }
    }

    /// Reads when it may, and gives what it read when that may pass.
    async fn read(&self, way: Way, from: &mut ReadHalf<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        self.pass(way).await;
        let length = from.read(buffer).await?;
        let Rules { delay, rate, .. } = self.rules.borrow().clone();
        let bytes = u32::try_from(length).unwrap_or(u32::MAX);
        let toll = rate.map(|rate| Duration::from_secs(1) * bytes / rate.max(1));
        let wait = delay + toll.unwrap_or_default();
        if !wait.is_zero() {
            sleep(wait).await;
        }
        self.pass(way).await;
        self.shared.tally.bytes.fetch_add(u64::from(bytes), Ordering::Relaxed);
        Ok(length)
    }

    /// Waits until nothing is held this way.
    async fn pass(&self, way: Way) {
        let mut rules = self.rules.clone();
        loop {
            let held = rules.borrow_and_update().held(way);
            if !self.is_one_of(&held).await || rules.changed().await.is_err() {
                return;
            }
        }
    }

    /// Whether it belongs to one of these.
    async fn is_one_of(&self, whose: &[Whose]) -> bool {
        for whose in whose {
            if self.client.is(*whose).await {
                return true;
            }
        }
        false
    }

    async fn is_repaired(&self) {
        let mut rules = self.rules.clone();
        let before = rules.borrow().repaired;
        let _ = rules.wait_for(|rules| rules.repaired > before).await;
    }

    /// How many of these bytes may pass, and whether there were more.
    fn spend(&self, length: usize) -> (usize, bool) {
        let wanted = i64::try_from(length).unwrap_or(i64::MAX);
        let take = |left: i64| (left < i64::MAX).then(|| left - wanted);
        let before = self.shared.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let left = before.unwrap_or(i64::MAX);
        let allowed = usize::try_from(left.clamp(0, wanted)).unwrap_or(length);
        (allowed, allowed < length)
    }

    /// What is to become of a message; a transaction is meant if what was named stood in it.
    fn judge(&self, message: &Message, is_meant: &mut bool) -> Option<Cut> {
        let mut wanted = self.shared.commit.lock().unwrap_or_else(PoisonError::into_inner);
        *is_meant |= wanted.as_ref().is_some_and(|(text, _)| has(&message.bytes, text));
        if !message.is_commit {
            return None;
        }
        self.shared.tally.commits.fetch_add(1, Ordering::Relaxed);
        let met = wanted.take_if(|_| *is_meant);
        *is_meant = false;
        self.shared.tally.commits_met.fetch_add(u64::from(met.is_some()), Ordering::Relaxed);
        met.map(|(_, cut)| cut)
    }
}
