//! The same endpoint with a real node behind it, on the memory store.

use std::net::SocketAddr;

use punctual_node::{Config, Node};
use punctual_store::memory::Memory;

use super::*;
use crate::Endpoints;
use crate::resp::serve;

pub(super) struct Real {
    pub(super) node: Node,
    pub(super) endpoints: Endpoints,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Real {
    pub(super) async fn start() -> Real {
        let node = Node::start(Config {
            store: Arc::new(Memory::new(4)),
            clock: Arc::new(ManualClock::at(fake::NOW)),
            lanes: 1,
            attempt_lease: Duration::from_secs(15),
            records: true,
            shard_lease: Duration::from_secs(3),
            cluster: None,
            attempt_keys: None,
            channels: None,
        })
        .unwrap();
        assert!(node.handle().wait_until(|status| status.ready).await);
        let endpoints = Endpoints::new(
            node.handle(),
            Arc::new(ManualClock::at(fake::NOW)),
            "dev",
            crate::Settings::default(),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = serve(listener, endpoints.clone(), Settings::default(), async { drop(stopped.await) });
        Real { node, endpoints, address, stop, served: tokio::spawn(served) }
    }

    pub(super) async fn client(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap() }
    }

    pub(super) async fn stop(self) {
        drop(self.stop);
        timeout(SOON, self.served).await.expect("it ends").unwrap().unwrap();
        self.node.shut_down().await;
    }
}

#[tokio::test]
async fn a_real_node_adds_delivers_wakes_and_acknowledges() {
    let real = Real::start().await;
    let (mut client, mut waiting) = (real.client().await, real.client().await);

    let id = client.add("mail hello 0").await;
    client.ask("QLEN mail", ":1\r\n").await;
    let job = format!("*1\r\n*3\r\n$4\r\nmail\r\n$40\r\n{id}\r\n$5\r\nhello\r\n");
    client.ask("GETJOB FROM mail", &job).await;
    client.ask(&format!("NACK {id}"), ":1\r\n").await;
    client.ask("GETJOB FROM none mail", &job).await;
    client.ask(&format!("ACKJOB {id}"), ":1\r\n").await;
    client.ask(&format!("ACKJOB {id}"), ":0\r\n").await;
    client.ask(&format!("SHOW {id}"), "$-1\r\n").await;

    waiting.send("GETJOB TIMEOUT 5000 FROM a b c\r\n").await;
    let woken = client.add("b now 0").await;
    waiting.expect(&format!("*1\r\n*3\r\n$1\r\nb\r\n$40\r\n{woken}\r\n$3\r\nnow\r\n")).await;

    let adds: String = (0..100).map(|number| format!("ADDJOB many {number} 0\r\n")).collect();
    client.send(adds).await;
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.push(client.line().await[1..].to_owned());
    }
    client.ask("QLEN many", ":100\r\n").await;
    client.send("GETJOB COUNT 200 FROM many\r\n").await;
    assert_eq!(client.line().await, "*100");
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(client.line().await, "*3");
        let taken = (client.bulk().await, client.bulk().await, client.bulk().await);
        assert_eq!(taken, ("many".to_owned(), id.clone(), number.to_string()));
    }
    client.ask(&format!("ACKJOB {}", ids.join(" ")), ":100\r\n").await;
    client.ask("QLEN many", ":0\r\n").await;
    client.ask("ADDJOB mail x 0 MAXLEN 1", "+D-").await;
    client.line().await;
    client
        .ask(
            "ADDJOB mail y 0 MAXLEN 1",
            "-MAXLEN Queue is already longer than the specified MAXLEN count\r\n",
        )
        .await;
    client.ask("PAUSE mail in", "+in\r\n").await;
    client.ask("ADDJOB mail y 0", "-PAUSED Queue paused in input, try later\r\n").await;
    client.ask("QFLUSH mail", ":1\r\n").await;

    real.stop().await;
}
