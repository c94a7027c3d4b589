//! Redis for tests, without a file: it forgets everything when it ends.

use super::Supervised;
use super::supervised::{folder, free_port};

pub fn start() -> Supervised {
    let (folder, port) = (folder("redis"), free_port());
    let here = folder.display().to_string();
    let command = ["redis-server", "--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""];
    let rest = ["--appendonly", "no", "--dir", &here];
    let command: Vec<String> = command.into_iter().chain(rest).map(str::to_owned).collect();
    Supervised::start(folder, port, "KILL", &command)
}

pub fn url(server: &Supervised) -> String {
    format!("redis://127.0.0.1:{}", server.port)
}
