//! The endpoint over a real socket: bytes in, bytes out.

mod commands;
mod connections;
mod fake;
mod metrics;
mod frames;
mod real;
mod strangers;
mod transactions;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use fake::Fake;
use punctual_core::time::ManualClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::counts::Seen;
use super::endpoint::{Behind, Endpoint};
use super::listen::accept;
use super::others::Others;
use super::settings::Settings;
use crate::auth::Gate;

/// Nothing that a test waits for takes longer, unless it is broken.
const SOON: Duration = Duration::from_secs(10);

struct Scene {
    fake: Arc<Fake>,
    endpoint: Arc<Endpoint>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Scene {
    async fn new() -> Scene {
        Scene::with(Settings::default(), Gate::open()).await
    }

    async fn with(settings: Settings, gate: Gate) -> Scene {
        let fake = Arc::new(Fake::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let behind = Behind {
            queues: Arc::clone(&fake) as _,
            gate: Arc::new(gate),
            clock: Arc::new(ManualClock::at(fake::NOW)),
            name: "dev".into(),
            seen: Seen::default(),
            others: Others::default(),
        };
        let endpoint = Arc::new(Endpoint::new(behind, listener.local_addr().unwrap(), settings));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn({
            let endpoint = Arc::clone(&endpoint);
            async move { accept(listener, endpoint, None, async move { drop(stopped.await) }).await }
        });
        Scene { fake, endpoint, stop: Some(stop), task }
    }

    async fn client(&self) -> Client {
        Client { stream: TcpStream::connect(self.endpoint.address).await.unwrap() }
    }

    /// Asks the endpoint to close and waits until it has.
    async fn stop(mut self) {
        drop(self.stop.take());
        timeout(SOON, self.task).await.expect("every connection ends").unwrap().unwrap();
    }
}

struct Client {
    stream: TcpStream,
}

impl Client {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads exactly what is expected, and no more.
    #[track_caller]
    fn expect<'a>(&'a mut self, expected: &'a str) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let mut read = Vec::new();
            while read.len() < expected.len() && expected.as_bytes().starts_with(&read) {
                let mut bytes = vec![0; expected.len() - read.len()];
                let count = timeout(SOON, self.stream.read(&mut bytes)).await;
                match count.unwrap_or_else(|_| panic!("{caller}: nothing more came after {}", shown(&read))) {
                    Ok(count) if count > 0 => read.extend_from_slice(&bytes[..count]),
                    _ => break,
                }
            }
            assert_eq!(shown(&read), shown(expected.as_bytes()), "{caller}");
        }
    }

    /// Sends a line and reads what it says.
    #[track_caller]
    fn ask<'a>(&'a mut self, line: &'a str, expected: &'a str) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            self.send(format!("{line}\r\n")).await;
            let read = self.some(expected.len()).await;
            assert_eq!(shown(&read), shown(expected.as_bytes()), "{line} at {caller}");
        }
    }

    /// Reads so many bytes, or what there is before the end.
    async fn some(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut limited = (&mut self.stream).take(u64::try_from(count).unwrap());
        if timeout(SOON, limited.read_to_end(&mut bytes)).await.is_err() {
            panic!("nothing more came after {}", shown(&bytes));
        }
        bytes
    }

    /// One line, without its end.
    async fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let byte = self.some(1).await;
            assert!(!byte.is_empty(), "it ended after {}", shown(&line));
            line.extend(byte);
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).unwrap()
    }

    /// A bulk string, as text.
    async fn bulk(&mut self) -> String {
        let head = self.line().await;
        let bytes = head.strip_prefix('$').unwrap_or_else(|| panic!("{head}")).parse::<usize>().unwrap();
        let bulk = self.some(bytes + 2).await;
        String::from_utf8_lossy(&bulk[..bytes]).into_owned()
    }

    /// Adds a job and returns its id.
    async fn add(&mut self, words: &str) -> String {
        self.send(format!("ADDJOB {words}\r\n")).await;
        let line = self.line().await;
        line.strip_prefix('+').unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    #[track_caller]
    fn expect_end(mut self) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let rest = self.some(4096).await;
            assert_eq!(shown(&rest), "", "{caller}: it goes on");
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// A request as libraries send it.
fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
