//! A way to the server that breaks where it is told to.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Where the next connection that gets there breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The server has carried out the transaction, and never hears of COMMIT.
    BeforeCommit,
    /// The server has committed, and its answer is lost.
    AfterCommit,
    /// The server has carried out what came before COMMIT, and does not know that nobody listens any more.
    InTransaction,
    /// So many bytes, of both directions, after a transaction has begun.
    After(usize),
}

impl Cut {
    /// What is on its way when it breaks.
    fn at(self) -> &'static [u8] {
        match self {
            Cut::BeforeCommit | Cut::AfterCommit => COMMIT,
            Cut::InTransaction | Cut::After(_) => b"START TRANSACTION",
        }
    }
}

/// As a packet of its own.
const COMMIT: &[u8] = b"\x07\0\0\0\x03COMMIT";

#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) port: u16,
    told: Arc<Told>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Told {
    cut: Mutex<Option<Cut>>,
    commits: Mutex<usize>,
    /// Connections that the server believes in.
    kept: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub(super) async fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let told = Arc::new(Told::default());
        let shared = Arc::clone(&told);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let upstream = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                connections.spawn(carry(client, upstream, Arc::clone(&shared)));
            }
        });
        Proxy { port, told, _tasks: tasks }
    }

    pub(super) fn cut(&self, cut: Cut) {
        *self.told.cut.lock() = Some(cut);
    }

    /// How often COMMIT passed.
    pub(super) fn commits(&self) -> usize {
        *self.told.commits.lock()
    }
}

async fn carry(mut client: TcpStream, mut upstream: TcpStream, told: Arc<Told>) {
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut left = usize::MAX;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                let packet = &asked[..length];
                let has = |text: &[u8]| packet.windows(text.len()).any(|window| window == text);
                let cut = told.cut.lock().take_if(|cut| has(cut.at()));
                if cut == Some(Cut::BeforeCommit) {
                    return;
                }
                if has(COMMIT) {
                    *told.commits.lock() += 1;
                }
                if let Some(Cut::After(bytes)) = cut {
                    left = bytes;
                }
                let passing = length.min(left);
                if upstream.write_all(&packet[..passing]).await.is_err() || passing < length {
                    return;
                }
                left -= passing;
                if matches!(cut, Some(Cut::AfterCommit | Cut::InTransaction)) {
                    // The server has done it when it answers.
                    let _ = upstream.read(&mut answered).await;
                    if cut == Some(Cut::InTransaction) {
                        told.kept.lock().push(upstream);
                    }
                    return;
                }
            }
            read = upstream.read(&mut answered) => {
                let Ok(length @ 1..) = read else { return };
                let passing = length.min(left);
                if client.write_all(&answered[..passing]).await.is_err() || passing < length {
                    return;
                }
                left -= passing;
            }
        }
    }
}
