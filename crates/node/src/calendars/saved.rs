//! Jobs that were saved with a calendar on this node, until the keeper has looked at them once more.
//!
//! The gate holds an edit of a calendar back only where it stands. An edit that another node made between the moment a
//! job's calendar was read and its commit may have walked past the job; whoever looks after the commit sees it.

use std::sync::{Arc, Mutex, PoisonError};

use punctual_core::name::{Name, Namespace};
use rustc_hash::FxHashSet;
use tokio::sync::{Notify, OwnedRwLockReadGuard};

/// Jobs kept by name; of more it is only known that there were more.
const SAVED_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Saved {
    noted: Mutex<Noted>,
    news: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) jobs: FxHashSet<(Namespace, Name)>,
    /// There were more than could be kept.
    pub(super) more: bool,
}

impl Saved {
    pub(super) fn note(&self, job: (Namespace, Name)) {
        self.keep([job]);
        self.news.notify_one();
    }

    /// Keeps jobs for the next time, without hurry.
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

    /// Waits until there is something to take.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }
}

/// What a job that is being saved rests on: the calendars of this node stay as they are until its commit is known, and
/// those of the others are looked at then.
#[derive(Debug)]
pub(crate) struct Held {
    pub(super) _gate: OwnedRwLockReadGuard<()>,
    /// None: there are no others.
    pub(super) saved: Option<Arc<Saved>>,
    pub(super) job: (Namespace, Name),
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(saved) = &self.saved {
            saved.note(self.job.clone());
        }
    }
}
