//! A node with open endpoints, like `punctual server`: on its own store, or on a shared one.

use std::net::SocketAddr;
use std::time::Duration;

use punctual_node::Handle;
use punctual_node::driver::LoadLimit;
use punctual_store::Opened;
use punctual_worker::function::Functions;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::data_folder::{Folder, Stopwatch};
use crate::settings::{Overrides, Settings, Store};
use crate::wiring::{self, Parts, Running};
use punctual::cluster::{Joining, session};

/// How long shards may take to settle: a node counts after five seconds, and a shard moves at least every 600 ms.
const SETTLES_MAX: Duration = Duration::from_secs(90);
/// After this long without a move, the shards count as settled.
const STEADY: Duration = Duration::from_secs(7);
/// How often shard moves are checked.
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Member {
    pub(super) handle: Handle,
    pub(super) endpoint: SocketAddr,
    running: Running,
    served: JoinHandle<std::io::Result<()>>,
    stop: oneshot::Sender<()>,
}

impl Member {
    /// Starts a node on a store. `None` means its own store in the folder.
    pub(super) async fn start(store: Option<&str>, folder: &Folder, slots: usize) -> anyhow::Result<Member> {
        Member::start_with(store, folder, slots, Functions::default()).await
    }

    /// The same with functions in its worker.
    pub(super) async fn start_with(
        store: Option<&str>,
        folder: &Folder,
        slots: usize,
        functions: Functions,
    ) -> anyhow::Result<Member> {
        let url = Store { url: store.map(str::to_owned), ..Store::default() };
        let data = folder.path().to_owned();
        let overrides =
            Overrides { data: Some(data), slots: Some(slots), store: url, ..Overrides::default() };
        let settings = Settings::read(None, overrides).map_err(anyhow::Error::msg)?;
        let session = session()?;
        let Opened { store, sessions } = wiring::open_store(&settings, session).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = listener.local_addr()?;
        let address = endpoint.to_string();
        let joining = sessions.map(|sessions| {
            let address = address.clone();
            Joining {
                session,
                sessions,
                address: Some(address),
                trusted: None,
                load_limit: LoadLimit::default(),
            }
        });
        let mut parts = Parts { joining, ..Parts::new(&address, session, store, &settings) };
        if let Some(worker) = &mut parts.worker {
            worker.functions = functions;
        }
        let running = wiring::start(&settings, parts).await?;
        running.announce(endpoint);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = punctual_server::serve(listener, running.endpoints(), async { drop(stopped.await) });
        let served = tokio::spawn(serving);
        running.ready().await?;
        let handle = running.handle().clone();
        Ok(Member { handle, endpoint, running, served, stop })
    }

    pub(super) async fn shut_down(self) -> anyhow::Result<()> {
        // The server may have ended already.
        let _ = self.stop.send(());
        self.served.await??;
        self.running.shut_down().await;
        Ok(())
    }
}

/// Waits until every shard is led and none moves any more.
pub(super) async fn settle(members: &[Member]) -> anyhow::Result<()> {
    let watch = Stopwatch::start();
    let led = || members.iter().map(|member| member.handle.status().shards_led).collect::<Vec<_>>();
    let shards = members.iter().map(|member| usize::from(member.handle.reads().shards())).max();
    // A single node takes all shards at once.
    let steady = if members.len() > 1 { STEADY } else { Duration::ZERO };
    let (mut before, mut since) = (led(), watch.elapsed());
    loop {
        let now = led();
        if now != before {
            (before, since) = (now.clone(), watch.elapsed());
        }
        if now.iter().sum::<usize>() == shards.unwrap_or(0) && watch.elapsed() - since >= steady {
            anyhow::ensure!(!now.contains(&0), "a node leads nothing: is another one on this store?");
            return Ok(());
        }
        anyhow::ensure!(
            watch.elapsed() < SETTLES_MAX,
            "the shards are not led by these nodes ({now:?} of {shards:?}): is another one on this store?"
        );
        tokio::time::sleep(LOOK).await;
    }
}
