//! One connection: runs the commands sent so far in order, and sends all replies in one write.
//!
//! Consecutive commands that add or acknowledge jobs are sent to the node together, so that a pipeline takes
//! about as long as its slowest command. All other commands run one after the other.

use std::sync::Arc;

use punctual_core::name::Namespace;
use punctual_wire::resp::{Decoded, Decoder, Limits, Malformed, Replies, Request};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::clients::Client;
use super::commands::multi::{self, Transaction};
use super::commands::{self, auth::Who};
use super::counts::{Done, Nonsense};
use super::endpoint::Endpoint;
use super::fault::{Fault, TOO_LONG};
use super::link::Link;
use super::settings::{BATCH_MAX, FLUSH_BYTES, OUTPUT_BYTES_MAX};
use super::table::{self, Kind, Row};

/// Bytes of an unknown command's name in the error.
const SHOWN_BYTES_MAX: usize = 128;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) client: Arc<Client>,
    pub(super) link: Link,
    pub(super) out: Replies,
    pub(super) who: Who,
    pub(super) namespace: Namespace,
    pub(super) mode: Mode,
    pub(super) transaction: Transaction,
    /// Whether the connection ends after the current reply.
    pub(super) ends: bool,
    pub(super) monitor: Option<broadcast::Receiver<Arc<str>>>,
    decoder: Decoder,
    /// When the incomplete request began to arrive. `None` means that none is incomplete.
    begun: Option<Instant>,
    /// When the client connected.
    came: Instant,
}

/// Whether a client wants replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    On,
    Off,
    /// Skip the next reply, but not this one.
    SkipNext,
    Skip,
}

impl Session {
    pub(super) fn new(endpoint: Arc<Endpoint>, client: Arc<Client>, link: Link) -> Session {
        let who = if endpoint.is_open() { Who::Anyone } else { Who::Stranger };
        let limits = if who == Who::Stranger { Limits::STRANGER } else { Limits::KNOWN };
        Session {
            endpoint,
            client,
            link,
            out: Replies::default(),
            who,
            namespace: Namespace::default(),
            mode: Mode::On,
            transaction: Transaction::None,
            ends: false,
            monitor: None,
            decoder: Decoder::new(limits),
            begun: None,
            came: Instant::now(),
        }
    }

    pub(super) async fn run(mut self) {
        let is_heard = self.serve().await;
        // Count the bytes of requests that were never answered, too.
        self.endpoint.counts.moved(self.link.moved());
        if is_heard {
            self.link.close().await;
        }
    }

    /// Serves until the end. `false` means that the client is gone.
    async fn serve(&mut self) -> bool {
        while !self.ends {
            let (batch, malformed) = self.decode();
            if batch.is_empty() && malformed.is_none() {
                if !self.wait().await {
                    break;
                }
                continue;
            }
            if self.handle(&batch).await.is_err() {
                return false;
            }
            if let Some(malformed) = malformed
                && !self.ends
            {
                self.endpoint.counts.is_nonsense(Nonsense::Malformed);
                self.out.error(&format!("ERR Protocol error: {malformed}"));
                self.ends = true;
            }
            self.ends |= self.client.is_ending();
            if self.send().await.is_err() {
                return false;
            }
        }
        true
    }

    /// Records who the client is; an authenticated client may send longer requests.
    pub(super) fn known_as(&mut self, who: Who) {
        self.who = who;
        self.decoder.limit(Limits::KNOWN);
    }

    /// Parses the buffered requests, up to a limit.
    fn decode(&mut self) -> (Vec<Decoded>, Option<Malformed>) {
        let mut batch = Vec::new();
        // Parse one request at a time before authentication: AUTH changes the limits for the next one.
        let most = if self.who == Who::Stranger { 1 } else { BATCH_MAX };
        while batch.len() < most {
            match self.decoder.decode(&mut self.link.buffer) {
                Ok(Some(decoded)) => batch.push(decoded),
                Ok(None) => break,
                Err(malformed) => return (batch, Some(malformed)),
            }
        }
        (batch, None)
    }

    /// Waits for more input. `false` means that the connection ends.
    async fn wait(&mut self) -> bool {
        let is_begun = self.decoder.is_begun() || !self.link.buffer.is_empty();
        self.begun = is_begun.then(|| self.begun.unwrap_or_else(Instant::now));
        let stranger = (self.who == Who::Stranger).then_some(self.came);
        let until = self.begun.or(stranger).map(|since| since + self.endpoint.settings.request_time);
        let until = until.or_else(|| self.rests_until());
        let monitored = async {
            match &mut self.monitor {
                Some(monitor) => monitor.recv().await,
                None => std::future::pending().await,
            }
        };
        let too_slow = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let client = Arc::clone(&self.client);
        let line = tokio::select! {
            biased;
            () = client.ended() => return false,
            read = self.link.read() => return match read {
                Ok(goes_on) => goes_on,
                Err(error) => {
                    debug!(%error, "a client is gone");
                    false
                }
            },
            line = monitored => line,
            () = too_slow => return false,
        };
        match line {
            Ok(line) => {
                self.out.simple(&line);
                self.send().await.is_ok()
            }
            // The client was too slow, or the endpoint closes.
            Err(RecvError::Lagged(_) | RecvError::Closed) => false,
        }
    }

    /// Until when the client may be idle. `None` means forever, as for a monitoring client.
    fn rests_until(&self) -> Option<Instant> {
        let idle_time = self.endpoint.settings.idle_time.filter(|_| self.monitor.is_none())?;
        Some(Instant::now() + idle_time)
    }

    async fn handle(&mut self, batch: &[Decoded]) -> Result<(), Fault> {
        let mut rest = batch;
        while let Some(first) = rest.first() {
            if self.ends {
                return Ok(());
            }
            self.wait_for_pause().await;
            let before = self.out.len();
            let mode = self.mode;
            let done = match first {
                Decoded::TooLong => {
                    self.endpoint.counts.is_nonsense(Nonsense::TooLong);
                    self.out.error(TOO_LONG);
                    self.transaction.fail();
                    1
                }
                Decoded::Request(request) => self.requests(request, rest).await?,
            };
            match (mode, self.mode) {
                (_, Mode::Off) => self.out.truncate(before),
                (_, Mode::SkipNext) => {
                    self.out.truncate(before);
                    self.mode = Mode::Skip;
                }
                (Mode::Skip, Mode::Skip) => {
                    self.out.truncate(before);
                    self.mode = Mode::On;
                }
                _ => {}
            }
            rest = rest.get(done..).unwrap_or_default();
            if self.out.len() > OUTPUT_BYTES_MAX {
                debug!(client = self.client.id, "an answer is longer than may be");
                return Err(Fault::Gone);
            }
            if self.out.len() > FLUSH_BYTES {
                self.send().await?;
            }
        }
        Ok(())
    }

    /// Runs the first request, together with the following ones of the same kind, and returns how many.
    pub(super) async fn requests(&mut self, first: &Request, rest: &[Decoded]) -> Result<usize, Fault> {
        let Some((number, row)) = table::find(first.word(0)) else {
            self.unknown(first.word(0));
            self.transaction.fail();
            return Ok(1);
        };
        if self.transaction.is_open() && !multi::acts_at_once(row) {
            self.queue(number, row, first).await?;
            return Ok(1);
        }
        self.tell_monitors(row, first);
        let (began, errors) = (Instant::now(), self.out.errors());
        let mut count = 1;
        let result = match self.admit(row, first).await {
            Err(fault) => Err(fault),
            Ok(()) => match row.kind {
                Kind::One(run) => run(self, first).await,
                // Grouping is not worth it for replies that are skipped.
                Kind::Many(many) => {
                    let alike = if self.mode == Mode::On { self.alike(row, rest) } else { vec![first] };
                    count = alike.len();
                    many(self, &alike).await
                }
            },
        };
        let is_gone = matches!(result, Err(Fault::Gone));
        if let Err(Fault::Said(text)) = result {
            self.out.error(&text);
        }
        let took = began.elapsed();
        let errors = self.out.errors() - errors;
        self.endpoint.counts.did(number, Done { calls: count, errors, is_gone }, took);
        if is_gone {
            return Err(Fault::Gone);
        }
        self.client.did(row.name);
        if !row.waits && self.endpoint.slowlog.is_slow(took) {
            let from = (self.client.address.to_string(), self.client.name());
            let words = first.words(0).take(if row.is_secret { 1 } else { usize::MAX });
            self.endpoint.slowlog.keep(self.endpoint.clock.now(), took, words, from);
        }
        Ok(count)
    }

    /// Queues a request until EXEC, or replies why it will not run.
    async fn queue(&mut self, number: usize, row: &Row, request: &Request) -> Result<(), Fault> {
        let began = Instant::now();
        let queued = match self.admit(row, request).await {
            Ok(()) => multi::queue(self, row, request),
            refused => refused,
        };
        match queued {
            // It is counted when it runs.
            Ok(()) => Ok(()),
            Err(Fault::Said(text)) => {
                self.out.error(&text);
                self.transaction.fail();
                self.endpoint.counts.did(
                    number,
                    Done { calls: 1, errors: 1, is_gone: false },
                    began.elapsed(),
                );
                Ok(())
            }
            Err(Fault::Gone) => Err(Fault::Gone),
        }
    }

    /// The consecutive requests with the same command.
    fn alike<'a>(&self, row: &Row, rest: &'a [Decoded]) -> Vec<&'a Request> {
        let same = |decoded: &'a Decoded| match decoded {
            Decoded::Request(request)
                if request.word(0).eq_ignore_ascii_case(row.name.as_bytes()) && row.takes(request.len()) =>
            {
                Some(request)
            }
            _ => None,
        };
        let alike: Vec<&Request> = rest.iter().map_while(same).collect();
        if self.endpoint.monitors.receiver_count() > 0 {
            alike.iter().skip(1).for_each(|request| self.tell_monitors(row, request));
        }
        alike
    }

    async fn admit(&mut self, row: &Row, request: &Request) -> Result<(), Fault> {
        if !row.takes(request.len()) {
            let name = row.name.to_ascii_lowercase();
            return Err(Fault::of(format!("ERR wrong number of arguments for '{name}' command")));
        }
        commands::auth::admit(self, row).await
    }

    fn unknown(&mut self, word: &[u8]) {
        // A web page can make a browser send HTTP here, with commands in the request body.
        if word.eq_ignore_ascii_case(b"POST") || word.eq_ignore_ascii_case(b"HOST:") {
            debug!("a client speaks HTTP");
            self.endpoint.counts.is_nonsense(Nonsense::Http);
            self.ends = true;
            return;
        }
        self.endpoint.counts.is_unknown();
        if self.who == Who::Stranger {
            return self.out.error("NOAUTH Authentication required.");
        }
        let shown = word.get(..SHOWN_BYTES_MAX).unwrap_or(word);
        let shown: String = String::from_utf8_lossy(shown).chars().filter(|c| !c.is_control()).collect();
        self.out.error(&format!("ERR unknown command '{shown}'"));
    }

    fn tell_monitors(&self, row: &Row, request: &Request) {
        if self.endpoint.monitors.receiver_count() > 0 && !row.is_secret {
            let line = commands::monitor::line(self.endpoint.clock.now(), self.client.address, request);
            // All monitoring clients may be gone.
            let _ = self.endpoint.monitors.send(line.into());
        }
    }

    async fn wait_for_pause(&mut self) {
        let until = *self.endpoint.paused_until.lock();
        let Some(until) = until.filter(|until| *until > Instant::now()) else { return };
        tokio::select! {
            () = sleep_until(until) => {}
            () = self.client.ended() => self.ends = true,
        }
    }

    /// Sends the collected replies.
    pub(super) async fn send(&mut self) -> Result<(), Fault> {
        let sent = self.link.send(&mut self.out).await;
        self.endpoint.counts.moved(self.link.moved());
        sent.map_err(|error| {
            debug!(%error, client = self.client.id, "an answer was not taken");
            Fault::Gone
        })
    }
}
