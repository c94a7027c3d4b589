//! `punctual dev`: one node on this machine, for everything.

use std::fs;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use clap::Args;
use punctual_wire::text::Span;
use serde_json::json;
use tokio::net::{TcpListener, lookup_host};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::info;
use tracing_subscriber::EnvFilter;

use super::failure::{Exit, Failure};
use super::output::{Colour, print};
use super::time::duration;
use crate::settings::{Clock, Durability, Egress, Leases, Log, Said, Server, Settings, Store};
use crate::wiring;

/// Where the data folder says how to reach the node.
const ADDRESS_FILE: &str = "punctual.json";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual dev
  punctual dev --data /var/lib/punctual --http 127.0.0.1:0
  punctual dev --config punctual.toml

It listens on this machine only and asks for no login. SIGTERM or Ctrl-C ends it.")]
pub(crate) struct Dev {
    /// Where jobs, runs and output are kept [default: ./punctual-data]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// Where REST listens; port 0 picks a free one [default: 127.0.0.1:7400]
    #[arg(long, value_name = "HOST:PORT", env = "PUNCTUAL_HTTP", value_parser = address)]
    http: Option<String>,
    /// Attempts that may run at once [default: 16]
    #[arg(long, value_name = "COUNT", env = "PUNCTUAL_SLOTS")]
    slots: Option<usize>,
    /// What an acknowledgement survives: a power loss, or only a crash [default: full]
    #[arg(long, value_enum, env = "PUNCTUAL_DURABILITY")]
    durability: Option<Durability>,
    /// How long a worker may be silent before its attempts are given up [default: 15s]
    #[arg(long, value_name = "SPAN", env = "PUNCTUAL_ATTEMPT_LEASE", value_parser = duration)]
    attempt_lease: Option<Duration>,
    /// How long a node that lost a shard waits before it takes it again [default: 3s]
    #[arg(long, value_name = "SPAN", env = "PUNCTUAL_SHARD_LEASE", value_parser = duration)]
    shard_lease: Option<Duration>,
    /// What to log: error, warn, info, debug or trace, for all or by module [default: info]
    #[arg(long, value_name = "LEVEL", env = "PUNCTUAL_LOG")]
    log: Option<String>,
    /// A settings file; `punctual.toml` of the source is the template
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
}

/// HOST:PORT, as an option takes it.
pub(super) fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("write it like 127.0.0.1:7400".to_owned()),
    }
}

impl Dev {
    pub(crate) async fn run(self, colour: Colour) -> Result<(), Failure> {
        let config = self.config.clone();
        let settings = Settings::read(config.as_deref(), self.said())
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        log_to_stderr(&settings, colour)?;
        let place = loopback(&settings.http).await?;
        let running = wiring::start(&settings).await.map_err(|error| Failure::new(Exit::Failed, error))?;
        let served = serve(&settings, place, &running).await;
        running.shut_down().await;
        served
    }

    fn said(self) -> Said {
        Said {
            data: self.data,
            http: self.http,
            slots: self.slots,
            store: Store { durability: self.durability, shards: None },
            leases: Leases { attempt: self.attempt_lease.map(Span), shard: self.shard_lease.map(Span) },
            clock: Clock::default(),
            egress: Egress::default(),
            server: Server::default(),
            log: Log { level: self.log },
        }
    }
}

fn log_to_stderr(settings: &Settings, colour: Colour) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&settings.log_level)
        .map_err(|error| Failure::new(Exit::Usage, format!("log level `{}`: {error}", settings.log_level)))?;
    let colour = colour.is_wanted(io::stderr().is_terminal());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(io::stderr).init();
    Ok(())
}

/// Whoever can reach `dev` may do everything, so only this machine can.
async fn loopback(http: &str) -> Result<SocketAddr, Failure> {
    let cannot = |error: io::Error| Failure::new(Exit::Usage, format!("cannot listen on {http}: {error}"));
    let mut places = lookup_host(http).await.map_err(cannot)?;
    let place = places.next().ok_or_else(|| Failure::new(Exit::Usage, format!("{http} has no address")))?;
    if !place.ip().is_loopback() {
        let message =
            format!("`dev` does not listen on {http}: it asks for no login, so it serves this machine only");
        return Err(Failure::new(Exit::Usage, message).hint("use 127.0.0.1 or localhost"));
    }
    Ok(place)
}

async fn serve(settings: &Settings, place: SocketAddr, running: &wiring::Running) -> Result<(), Failure> {
    let busy = |error: io::Error| {
        Failure::new(Exit::Failed, format!("cannot listen on {place}: {error}"))
            .hint("--http 127.0.0.1:0 picks a free port")
    };
    let listener = TcpListener::bind(place).await.map_err(busy)?;
    let place = listener.local_addr().map_err(Failure::io)?;
    running.listens_on(place);
    let address = AddressFile::write(&settings.data, place).map_err(Failure::io)?;
    print(&format!("punctual listens on http://{place}, data in {}", settings.data.display()))?;
    let (stop_in, stop) = watch::channel(false);
    let done = tokio::select! {
        done = punctual_server::serve(listener, running.doors(), stopped(stop)) => done.map_err(Failure::io),
        failed = running.failed() => Err(Failure::new(Exit::Failed, failed)),
        done = asked_to_stop(stop_in) => done.map_err(Failure::io),
    };
    address.remove();
    done
}

/// Tells when someone asks for the end; returns when they ask again, for then they mean it.
async fn asked_to_stop(stop: watch::Sender<bool>) -> io::Result<()> {
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    for _ in 0..2 {
        tokio::select! {
            _ = term.recv() => info!("asked to stop by SIGTERM"),
            _ = interrupt.recv() => info!("asked to stop by SIGINT"),
        }
        stop.send_replace(true);
    }
    Ok(())
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that nobody is left to ask, which comes to the same.
    drop(stop.wait_for(|stop| *stop).await);
}

/// Says where the node listens. A process that was killed leaves it behind; the next start writes it anew.
struct AddressFile(PathBuf);

impl AddressFile {
    /// Written aside and renamed: whoever reads it finds all of it or nothing.
    fn write(data: &Path, place: SocketAddr) -> io::Result<AddressFile> {
        let path = data.join(ADDRESS_FILE);
        let aside = data.join(format!("{ADDRESS_FILE}.new"));
        let text =
            json!({ "http": place.to_string(), "url": format!("http://{place}"), "pid": process::id() });
        fs::write(&aside, format!("{text}\n"))?;
        fs::rename(&aside, &path)?;
        Ok(AddressFile(path))
    }

    fn remove(self) {
        // It misleads nobody for long: its pid is gone.
        let _ = fs::remove_file(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn dev_listens_on_this_machine_only() {
        assert!(loopback("127.0.0.1:0").await.is_ok());
        assert!(loopback("[::1]:0").await.is_ok());
        assert!(loopback("0.0.0.0:7400").await.is_err());
        assert!(loopback("192.0.2.1:7400").await.is_err());
    }
}
