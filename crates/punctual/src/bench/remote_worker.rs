//! A worker that is connected over the network, as in a cluster.

use std::time::Duration;

use punctual_core::worker::Announcement;
use punctual_worker::function::Functions;
use punctual_worker::session::{Ended, Status};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::data_folder::Folder;
use super::member::Member;
use crate::wiring::{OWN_BINARY, Remote, work};

pub(super) struct RemoteWorker {
    worked: JoinHandle<Result<(), Ended>>,
    stop: oneshot::Sender<()>,
}

impl RemoteWorker {
    /// Starts a worker that dials all these nodes, and waits until each knows it.
    pub(super) async fn start(
        members: &[Member],
        folder: &Folder,
        slots: usize,
    ) -> anyhow::Result<RemoteWorker> {
        let remote = Remote {
            servers: members.iter().map(|member| format!("http://{}", member.endpoint)).collect(),
            token: None,
            ca: None,
            name: "bench".to_owned(),
            announcement: Announcement::of(slots),
            data: folder.path().join("worker"),
            guardian: Some(OWN_BINARY.into()),
            drain: Duration::ZERO,
            egress: Vec::new(),
            functions: Functions::default(),
        };
        let (status, _) = watch::channel(Status::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let worked = tokio::spawn(work(remote, status, async { drop(stopped.await) }));
        for member in members {
            let joined = member.handle.wait_until(|status| status.failed.is_some() || status.workers > 0);
            anyhow::ensure!(joined.await, "the worker did not join");
        }
        Ok(RemoteWorker { worked, stop })
    }

    pub(super) async fn shut_down(self) -> anyhow::Result<()> {
        // The worker may have ended already.
        let _ = self.stop.send(());
        self.worked.await??;
        Ok(())
    }
}
