//! Jobs saved with a calendar on this node that the keeper has not checked again yet.
//!
//! The gate holds back only edits of its own node. An edit by another node between reading a job's calendar and the
//! job's commit may have missed the job; a check after the commit finds it.

use std::sync::{Arc, Mutex, PoisonError};

use punctual_core::name::{Name, Namespace};
use rustc_hash::FxHashSet;
use tokio::sync::{Notify, OwnedRwLockReadGuard};

/// Maximum number of jobs kept by name; beyond it only the fact that there were more is kept.
const SAVED_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Saved {
    noted: Mutex<Noted>,
    news: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct Noted {
    pub(crate) jobs: FxHashSet<(Namespace, Name)>,
    /// More jobs were saved than could be kept.
    pub(crate) more: bool,
}

impl Saved {
    pub(super) fn note(&self, job: (Namespace, Name)) {
        self.keep([job]);
        self.news.notify_one();
    }

    /// Keeps jobs for the next check, without waking the keeper.
    pub(super) fn keep(&self, jobs: impl IntoIterator<Item = (Namespace, Name)>) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        for job in jobs {
            if noted.jobs.len() < SAVED_MAX {
                noted.jobs.insert(job);
            } else {
                noted.more = true;
            }
        }
    }

    pub(super) fn take(&self) -> Noted {
        std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until a job was noted.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }
}

/// Held while a job is being saved: blocks calendar edits on this node until the commit is known, then has the keeper
/// check the job for edits by other nodes.
#[derive(Debug)]
pub(crate) struct SaveGuard {
    pub(super) _gate: OwnedRwLockReadGuard<()>,
    /// `None` means a single node.
    pub(super) saved: Option<Arc<Saved>>,
    pub(super) job: (Namespace, Name),
}

impl Drop for SaveGuard {
    fn drop(&mut self) {
        if let Some(saved) = &self.saved {
            saved.note(self.job.clone());
        }
    }
}
