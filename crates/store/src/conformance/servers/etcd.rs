//! etcd for tests: a cluster of one or three members.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;

use super::Supervised;
use super::supervised::{folder, free_port, wait_until};

pub fn start() -> Supervised {
    let (folder, port) = (folder("etcd"), free_port());
    let here = folder.display();
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", free_port()));
    let command = format!(
        "etcd --data-dir {here}/data --listen-client-urls {client} --advertise-client-urls {client} \
         --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} --initial-cluster default={peer} \
         --unsafe-no-fsync"
    );
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let server = Supervised::start(folder, port, "KILL", &command);
    wait_until("etcd has elected itself", || is_healthy(port).unwrap_or(false));
    server
}

/// Starts a cluster of three members.
pub fn start_three() -> Vec<Supervised> {
    let ports: Vec<(u16, u16)> = (0..3).map(|_| (free_port(), free_port())).collect();
    let members = ports.iter().map(|(_, peer)| format!("m{peer}=http://127.0.0.1:{peer}"));
    let members = members.collect::<Vec<_>>().join(",");
    // Started in parallel, because no member answers before most of them run.
    let starting = ports.into_iter().map(|(port, peer)| {
        let members = members.clone();
        thread::spawn(move || {
            let folder = folder("etcd");
            let (here, client) = (folder.display(), format!("http://127.0.0.1:{port}"));
            let command = format!(
                "etcd --name m{peer} --data-dir {here}/data --listen-client-urls {client} \
                 --advertise-client-urls {client} --listen-peer-urls http://127.0.0.1:{peer} \
                 --initial-advertise-peer-urls http://127.0.0.1:{peer} --initial-cluster {members} \
                 --heartbeat-interval 50 --election-timeout 500 --unsafe-no-fsync"
            );
            let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            let server = Supervised::start(folder, port, "KILL", &command);
            wait_until("etcd has elected a leader", || is_healthy(port).unwrap_or(false));
            server
        })
    });
    let starting: Vec<_> = starting.collect();
    starting.into_iter().map(|server| server.join().expect("etcd starts")).collect()
}

/// The address of all members.
pub fn url_of_all(servers: &[Supervised]) -> String {
    let places: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    format!("etcd://{}", places.join(","))
}

/// A member listens before the cluster has a leader, and refuses requests until then.
fn is_healthy(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.contains(r#""health":"true""#))
}

pub fn url(server: &Supervised) -> String {
    format!("etcd://127.0.0.1:{}", server.port)
}
