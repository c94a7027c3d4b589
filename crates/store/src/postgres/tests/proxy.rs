//! A wire to the database that can be cut at a chosen moment.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Pass,
    /// The next request is not passed on.
    CutBeforeRequest,
    /// Half of the next request is passed on.
    CutInsideRequest,
    /// The answer to a `COMMIT` is not passed back.
    CutAfterCommit,
}

/// What the server says when it has committed.
const COMMITTED: &[u8] = b"COMMIT\0";

#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    mode: Arc<Mutex<Mode>>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(super) async fn start(port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mode = Arc::new(Mutex::new(Mode::Pass));
        let of_wires = Arc::clone(&mode);
        let task = tokio::spawn(async move {
            let mut wires = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                wires.spawn(carry(client, port, Arc::clone(&of_wires)));
            }
        });
        Proxy { address, mode, task }
    }

    /// Once: the wire after it is whole again.
    pub(super) fn cut(&self, when: Mode) {
        *self.mode.lock() = when;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut client: TcpStream, port: u16, mode: Arc<Mutex<Mode>>) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut asked, mut answered) = (vec![0; 65536], vec![0; 65536]);
    // The last bytes that came back: an answer may come in pieces.
    let mut tail: Vec<u8> = Vec::new();
    loop {
        let is_over = tokio::select! {
            bytes = client.read(&mut asked) => match bytes {
                Ok(bytes @ 1..) if take(&mode, Mode::CutInsideRequest) => {
                    let _ = server.write_all(&asked[..bytes / 2]).await;
                    true
                }
                Ok(bytes @ 1..) if !take(&mode, Mode::CutBeforeRequest) => {
                    server.write_all(&asked[..bytes]).await.is_err()
                }
                _ => true,
            },
            bytes = server.read(&mut answered) => match bytes {
                Ok(bytes @ 1..) => {
                    tail.extend_from_slice(&answered[..bytes]);
                    let has_committed = tail.windows(COMMITTED.len()).any(|window| window == COMMITTED);
                    tail.drain(..tail.len().saturating_sub(COMMITTED.len() - 1));
                    (has_committed && take(&mode, Mode::CutAfterCommit))
                        || client.write_all(&answered[..bytes]).await.is_err()
                }
                _ => true,
            },
        };
        if is_over {
            return;
        }
    }
}

/// Whether this is the moment; it comes only once.
fn take(mode: &Mutex<Mode>, moment: Mode) -> bool {
    let mut mode = mode.lock();
    let is_now = *mode == moment;
    if is_now {
        *mode = Mode::Pass;
    }
    is_now
}
