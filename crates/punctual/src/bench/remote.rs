//! A worker beside the node, with the network between them: the way that assignments take in a cluster.

use std::time::Duration;

use punctual_core::worker::Announcement;
use punctual_node::Handle;
use punctual_worker::session::{Ended, Status};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::place::{Folder, node};
use crate::wiring::{Remote, Running, work};

/// A node without slots of its own, its door on a free port, and a worker that dials it.
pub(super) struct Pair {
    running: Running,
    served: JoinHandle<std::io::Result<()>>,
    worked: JoinHandle<Result<(), Ended>>,
    stop_serving: oneshot::Sender<()>,
    stop_working: oneshot::Sender<()>,
}

impl Pair {
    pub(super) async fn start(folder: &Folder, slots: usize) -> anyhow::Result<(Pair, Handle)> {
        let (running, handle) = node(folder, 0).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let place = listener.local_addr()?;
        running.listens_on(place);
        let (stop_serving, stopped) = oneshot::channel::<()>();
        let serving = punctual_server::serve(listener, running.doors(), async { drop(stopped.await) });
        let served = tokio::spawn(serving);
        let remote = Remote {
            servers: vec![format!("http://{place}")],
            token: None,
            ca: None,
            name: "bench".to_owned(),
            announcement: Announcement::of(slots),
            data: folder.path().join("worker"),
            drain: Duration::ZERO,
            egress: Vec::new(),
        };
        let (status, _) = watch::channel(Status::default());
        let (stop_working, stopped) = oneshot::channel::<()>();
        let worked = tokio::spawn(work(remote, status, async { drop(stopped.await) }));
        let joined = handle.wait_until(|status| status.failed.is_some() || !status.workers.is_empty());
        anyhow::ensure!(joined.await, "the worker did not join");
        Ok((Pair { running, served, worked, stop_serving, stop_working }, handle))
    }

    pub(super) async fn shut_down(self) -> anyhow::Result<()> {
        // Whoever has ended already need not be told.
        let _ = self.stop_working.send(());
        self.worked.await??;
        let _ = self.stop_serving.send(());
        self.served.await??;
        self.running.shut_down().await;
        Ok(())
    }
}
