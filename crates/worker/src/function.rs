//! Functions of the program that this worker is linked into.
//!
//! They are registered by name. The worker announces the names and gets only runs of those functions. A function gets a
//! [`Context`] with its run, its parameters, and ways to report while it works.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Report};
use punctual_core::cut;
use punctual_core::ids::{RunId, Token};
use punctual_core::limits::PROGRESS_MESSAGE_BYTES_MAX;
use punctual_core::log::{CHUNK_BYTES_MAX, Stream};
use punctual_core::name::{Name, Namespace};
use punctual_core::progress::Progress;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::driver::Stop;
use crate::executor::Lines;
use crate::log::Transcript;

/// A checkpoint without an answer is sent again after this time.
const REPORT_AGAIN: Duration = Duration::from_secs(3);

/// Why a function failed. Every standard error, an `anyhow` error and a plain text convert into it with `?` or
/// `into()`. The text is stored with the run.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A call of a function.
pub type Calling = Pin<Box<dyn Future<Output = Result<Output, Error>> + Send>>;
pub(crate) type Function = Arc<dyn Fn(Context) -> Calling + Send + Sync>;

/// The result of a function: a text, or a value as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output(String);

impl Output {
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl From<()> for Output {
    fn from((): ()) -> Self {
        Output::default()
    }
}

impl From<&str> for Output {
    fn from(text: &str) -> Self {
        Output(text.to_owned())
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Output(text)
    }
}

impl From<serde_json::Value> for Output {
    fn from(value: serde_json::Value) -> Self {
        Output(value.to_string())
    }
}

/// The functions of a worker, by name.
#[derive(Clone, Default)]
pub struct Functions(BTreeMap<Name, Function>);

impl Functions {
    /// Registers a function. False means the name is already taken; the earlier function stays.
    pub fn add<F, Fut>(&mut self, name: Name, function: F) -> bool
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, Error>> + Send + 'static,
    {
        let is_new = !self.0.contains_key(&name);
        if is_new {
            // Code before the function's first await is part of the attempt too, including a panic.
            let function = Arc::new(function);
            let call = move |context| -> Calling {
                let function = Arc::clone(&function);
                Box::pin(async move { function(context).await })
            };
            self.0.insert(name, Arc::new(call));
        }
        is_new
    }

    /// The same functions, with `wrap` around each call.
    #[must_use]
    pub fn wrapped(self, wrap: impl Fn(&Context, Calling) -> Calling + Send + Sync + 'static) -> Functions {
        let wrap = Arc::new(wrap);
        let wrapped = |(name, function): (Name, Function)| {
            let wrap = Arc::clone(&wrap);
            let call = move |context: Context| wrap(&context, function(context.clone()));
            (name, Arc::new(call) as Function)
        };
        Functions(self.0.into_iter().map(wrapped).collect())
    }

    pub fn names(&self) -> BTreeSet<Name> {
        self.0.keys().cloned().collect()
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Function> {
        self.0.get(name)
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// One attempt, as the function sees it. It may be cloned.
#[derive(Debug, Clone)]
pub struct Context {
    pub(crate) assignment: Arc<Assignment>,
    pub(crate) transcript: Arc<Transcript>,
    pub(crate) stop: watch::Receiver<Option<Stop>>,
    pub(crate) reports: mpsc::Sender<Report>,
    /// The number of the newest report whose checkpoint is stored.
    pub(crate) saved: watch::Receiver<u64>,
    /// The number of the last report.
    pub(crate) seq: Arc<AtomicU64>,
}

impl Context {
    pub fn run(&self) -> RunId {
        self.assignment.run
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.assignment.attempt
    }

    /// The fencing token: it outdates every earlier attempt of the run. A system that remembers the highest token it
    /// has seen can refuse an attempt that was given up and does not know it yet.
    pub fn token(&self) -> Token {
        self.assignment.token
    }

    pub fn namespace(&self) -> &Namespace {
        &self.assignment.namespace
    }

    /// `None` means the run was submitted without a job.
    pub fn job(&self) -> Option<&Name> {
        self.assignment.job.as_ref()
    }

    /// The scheduled time of the run, even if it starts late.
    pub fn due(&self) -> Timestamp {
        self.assignment.due
    }

    /// The key that the run was submitted with. `None` means it has no key.
    pub fn key(&self) -> Option<&str> {
        self.assignment.key.as_deref()
    }

    /// The parameters, deserialized into a type of the function's choice.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.assignment.params.0)
            .map_err(|error| format!("the parameters are not what this function takes: {error}").into())
    }

    /// Whether the attempt should end because of a cancel, a timeout, a replacement or a shutdown.
    pub fn is_cancelled(&self) -> bool {
        self.stop.borrow().is_some()
    }

    /// Waits until the attempt should end. A function that does not end is dropped at its next `await` after the grace
    /// period.
    pub async fn cancelled(&self) {
        // An error means the worker is gone: end, too.
        drop(self.stop.clone().wait_for(Option::is_some).await);
    }

    /// Reports progress from 0 to 100. If the function reports faster than the network sends, some values are dropped.
    pub fn progress(&self, percent: u8) {
        // The channel is full: drop this value, a newer one follows.
        let _ = self.reports.try_send(self.numbered(Progress::percent(percent.min(100))).1);
    }

    /// Reports progress from 0 to 100 and a message that people see beside the run. Of a message longer than 256 bytes only the
    /// end is kept.
    pub fn report(&self, percent: u8, message: impl Into<String>) {
        let message = cut::keep_end(&message.into(), PROGRESS_MESSAGE_BYTES_MAX).into_owned();
        let progress = Progress { message: Some(message.into()), ..Progress::percent(percent.min(100)) };
        let _ = self.reports.try_send(self.numbered(progress).1);
    }

    /// Records where the next attempt of the run continues, and returns when that is stored. Not more than 64 KiB of
    /// JSON. The future may be dropped: the checkpoint is then stored or not.
    pub async fn checkpoint<T: Serialize>(&self, value: &T) -> Result<(), Error> {
        let checkpoint = Some(serde_json::to_string(value)?.into());
        let progress = Progress { checkpoint, ..Progress::default() };
        progress.check()?;
        let (seq, report) = self.numbered(progress);
        let mut saved = self.saved.clone();
        loop {
            let gone = "its worker is gone";
            self.reports.send(report.clone()).await.map_err(|_| gone)?;
            // No answer: the report may be lost together with a connection or a node.
            match timeout(REPORT_AGAIN, saved.wait_for(|saved| *saved >= seq)).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(_)) => return Err(gone.into()),
                Err(_) => {}
            }
        }
    }

    /// Asks to be continued on another worker, from this checkpoint, and waits until the attempt should end. Return then:
    /// what the function returns does not matter any more.
    pub async fn rebalance<T: Serialize>(&self, value: &T) -> Result<(), Error> {
        let checkpoint = Some(serde_json::to_string(value)?.into());
        let progress = Progress { checkpoint, rebalance: true, ..Progress::default() };
        progress.check()?;
        let (_, report) = self.numbered(progress);
        while !self.is_cancelled() {
            self.reports.send(report.clone()).await.map_err(|_| "its worker is gone")?;
            // No request to stop: the report may be lost together with a connection or a node.
            let _ = timeout(REPORT_AGAIN, self.cancelled()).await;
        }
        Ok(())
    }

    /// The last checkpoint of an earlier attempt. `None` means that no attempt has stored one: start from the beginning.
    pub fn resumed<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let json = self.assignment.checkpoint.as_deref();
        json.map(serde_json::from_str).transpose().map_err(|error| {
            format!("the checkpoint of an earlier attempt is not what this function takes: {error}").into()
        })
    }

    /// The report with the next number.
    fn numbered(&self, progress: Progress) -> (u64, Report) {
        let Assignment { run, token, .. } = *self.assignment;
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        (seq, Report::Progress { run, token, progress: Progress { seq: Some(seq), ..progress } })
    }

    /// Adds to the log of the run. Waits while the log accepts no more.
    pub async fn log(&self, text: impl AsRef<str>) {
        let text = text.as_ref();
        let mut kept = Vec::with_capacity(text.len() + 1);
        self.transcript.left_out(Lines::default().add(text.as_bytes(), &mut kept));
        if !text.ends_with('\n') {
            kept.push(b'\n');
        }
        for piece in kept.chunks(CHUNK_BYTES_MAX) {
            self.transcript.output(Stream::Out, piece.to_vec()).await;
        }
    }
}
