//! A server in a process of its own, so that its processor time and memory can be measured apart from the load.

use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::Duration;

use punctual_client::Client;

use super::data_folder::Stopwatch;

/// The unit of /proc/PID/stat on Linux.
pub(super) const TICKS_PER_SECOND: f64 = 100.0;

/// `punctual dev` in a separate process, which ends with the benchmark.
pub(super) struct Server {
    child: Child,
    address_file: PathBuf,
}

impl Server {
    pub(super) fn start(data: &Path) -> anyhow::Result<Server> {
        let address_file = data.join("punctual.json");
        drop(std::fs::remove_file(&address_file));
        let child = Process::new(std::env::current_exe()?)
            .args(["dev", "--http", "127.0.0.1:0", "--log", "error", "--data"])
            .arg(data)
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Server { child, address_file })
    }

    /// Its address and a client, when it is ready.
    pub(super) async fn client(&mut self) -> anyhow::Result<(String, Client)> {
        let watch = Stopwatch::start();
        loop {
            anyhow::ensure!(self.child.try_wait()?.is_none(), "the server ended by itself");
            anyhow::ensure!(
                watch.elapsed() < Duration::from_secs(60),
                "the server is not ready after a minute"
            );
            let said = std::fs::read(&self.address_file).ok();
            let address: Option<serde_json::Value> = said.and_then(|text| serde_json::from_slice(&text).ok());
            if let Some(url) = address.as_ref().and_then(|address| address["url"].as_str())
                && let client = Client::new(url, None)?
                && client.is_ready().await.unwrap_or(false)
            {
                return Ok((url.to_owned(), client));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// All of its memory, the program itself included.
    pub(super) fn rss_kib(&self) -> anyhow::Result<u64> {
        self.status_kib("VmRSS:")
    }

    /// The memory that it has allocated.
    pub(super) fn allocated_kib(&self) -> anyhow::Result<u64> {
        self.status_kib("RssAnon:")
    }

    fn status_kib(&self, field: &str) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.unwrap_or("0").parse()?)
    }

    pub(super) fn cpu_ticks(&self) -> anyhow::Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in brackets may contain spaces; user and system time are the 12th and 13th field after it.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        Ok(field(11) + field(12))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
