//! Functions of the program that this worker is linked into.
//!
//! They are registered by name. The worker announces the names and gets only runs of those functions. A function gets a
//! [`Context`] with its run, its parameters, and ways to report while it works.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Report};
use punctual_core::ids::{RunId, Token};
use punctual_core::log::{CHUNK_BYTES_MAX, Stream};
use punctual_core::name::{Name, Namespace};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};

use crate::driver::Stop;
use crate::executor::Lines;
use crate::log::Transcript;

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
        let Assignment { run, token, .. } = *self.assignment;
        // The channel is full: drop this value, a newer one follows.
        let _ = self.reports.try_send(Report::Progress { run, token, percent: percent.min(100) });
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
