//! etcd, a cluster of one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

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

/// It listens before it has a leader, and refuses until then.
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
