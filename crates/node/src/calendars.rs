//! The part of a handle that concerns calendars: it hands edits to the keeper, and keeps the calendars of a job
//! unchanged while the job is saved.

mod saved;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Expect, Made};
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::calendar::{Days, Record};
use tokio::sync::{RwLock, RwLockWriteGuard, mpsc, oneshot, watch};

use crate::failure::{Failure, stopped};
use saved::{Noted, Saved};

pub(crate) use saved::SaveGuard;

/// Maximum number of waiting edits; people make them, so there are few.
const EDITS_MAX: usize = 64;
/// How long an edit waits until all jobs are re-planned. A million jobs take longer; then the answer says so.
const FOLLOW_WAIT: Duration = Duration::from_secs(10);

/// An edit of a calendar, as requested by an endpoint.
#[derive(Debug, Clone)]
pub struct EditCalendar {
    pub namespace: Namespace,
    pub name: Name,
    pub days: Days,
    pub description: String,
    pub expect: Expect,
}

/// The part of a handle that talks to the keeper.
#[derive(Debug, Clone)]
pub(crate) struct Calendars {
    edits: mpsc::Sender<Edit>,
    gate: Arc<RwLock<()>>,
    /// `None` means a single node.
    saved: Option<Arc<Saved>>,
    /// Every job uses the newest calendars up to this version.
    settled: watch::Receiver<u32>,
}

#[derive(Debug)]
pub(crate) enum Edit {
    Put { edit: EditCalendar, reply: oneshot::Sender<Result<(Arc<Record>, Made), Failure>> },
    Delete { namespace: Namespace, name: Name, expect: Expect, reply: oneshot::Sender<Result<(), Failure>> },
}

impl Calendars {
    pub(crate) fn new(is_alone: bool) -> (Calendars, mpsc::Receiver<Edit>, watch::Sender<u32>) {
        let (edits_in, edits) = mpsc::channel(EDITS_MAX);
        let (settled_in, settled) = watch::channel(0);
        let saved = (!is_alone).then(Arc::default);
        (Calendars { edits: edits_in, gate: Arc::default(), saved, settled }, edits, settled_in)
    }
    /// Puts a calendar. The answer comes when every job is re-planned, or after [`FOLLOW_WAIT`] with `settled` false.
    pub(crate) async fn put(&self, edit: EditCalendar) -> Result<(Arc<Record>, Made), Failure> {
        let (reply, answer) = oneshot::channel();
        self.edits.send(Edit::Put { edit, reply }).await.map_err(|_| stopped())?;
        let (record, made) = answer.await.map_err(|_| stopped())??;
        let version = record.calendar.version;
        let mut settled = self.settled.clone();
        let follows =
            tokio::time::timeout(FOLLOW_WAIT, settled.wait_for(|through| *through >= version)).await;
        let record = match follows {
            Ok(Ok(_)) => Arc::new(Record { settled: true, ..(*record).clone() }),
            _ => record,
        };
        Ok((record, made))
    }

    pub(crate) async fn delete(
        &self,
        namespace: Namespace,
        name: Name,
        expect: Expect,
    ) -> Result<(), Failure> {
        let (reply, answer) = oneshot::channel();
        let delete = Edit::Delete { namespace, name, expect, reply };
        self.edits.send(delete).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Blocks edits on this node until the guard is dropped.
    pub(crate) async fn begin_save(&self, job: (Namespace, Name)) -> SaveGuard {
        let gate = Arc::clone(&self.gate).read_owned().await;
        SaveGuard { _gate: gate, saved: self.saved.clone(), job }
    }

    /// Blocks saves of jobs on this node until the guard is dropped.
    pub(crate) async fn begin_edit(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().await
    }

    pub(crate) fn is_in_cluster(&self) -> bool {
        self.saved.is_some()
    }

    /// Waits until a job was saved; for ever on a single node.
    pub(crate) async fn job_saved(&self) {
        match &self.saved {
            Some(saved) => saved.news().await,
            None => std::future::pending().await,
        }
    }

    /// The jobs saved on this node since the last call. On a single node there are none.
    pub(crate) fn take_saved(&self) -> Noted {
        self.saved.as_ref().map(|saved| saved.take()).unwrap_or_default()
    }

    /// Keeps jobs for the next [`Calendars::take_saved`].
    pub(crate) fn keep_saved(&self, jobs: impl IntoIterator<Item = (Namespace, Name)>) {
        if let Some(saved) = &self.saved {
            saved.keep(jobs);
        }
    }
}
