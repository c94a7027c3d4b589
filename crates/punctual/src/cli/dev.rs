//! `punctual dev`: one node with all roles on this machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use punctual_wire::text::Span;
use tracing::warn;

use super::failure::{Exit, Failure};
use super::output::Colour;
use super::serving::{Queues, address, console, listen, log_to_stderr, resolve, serve};
use super::time::duration;
use crate::settings::{self, Durability, Leases, Log, Overrides, RespOverrides, Settings, Store};
use crate::wiring::{self, Access, Parts, Running};
use punctual::cluster::session;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual dev
  punctual dev --data /var/lib/punctual --http 127.0.0.1:0
  punctual dev --config punctual.toml

The node listens on this machine only and needs no token. SIGTERM or Ctrl-C stops it.")]
pub(crate) struct Dev {
    /// Where jobs, runs and output are kept [default: ./punctual-data]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// Where REST listens; port 0 picks a free one [default: 127.0.0.1:7400]
    #[arg(long, value_name = "HOST:PORT", env = "PUNCTUAL_HTTP", value_parser = address)]
    http: Option<String>,
    /// Where the Redis-protocol endpoint (queues) listens; port 0 picks a free one [default: 127.0.0.1:7711]
    #[arg(long, value_name = "HOST:PORT", env = "PUNCTUAL_RESP", value_parser = address)]
    resp: Option<String>,
    /// A file of mode 0600 with the password of that endpoint, for AUTH [default: no password]
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_RESP_PASSWORD_FILE")]
    resp_password_file: Option<PathBuf>,
    /// Close connections to that endpoint that were idle this long; 0s means never [default: 0s]
    #[arg(long, value_name = "SPAN", env = "PUNCTUAL_RESP_IDLE_TIME", value_parser = duration)]
    resp_idle_time: Option<Duration>,
    /// Attempts that may run at once in this process; 0 leaves them to `punctual worker` [default: 16]
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
    /// Serve the console from this folder, such as web/dist [default: the one in the binary]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_UI_DIR")]
    ui_dir: Option<PathBuf>,
    /// What to log: error, warn, info, debug or trace, for all or by module [default: info]
    #[arg(long, value_name = "LEVEL", env = "PUNCTUAL_LOG")]
    log: Option<String>,
    /// A settings file; `punctual.toml` of the source is the template
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
}

impl Dev {
    pub(crate) async fn run(self, colour: Colour) -> Result<(), Failure> {
        let config = self.config.clone();
        let settings = Settings::read(config.as_deref(), self.overrides())
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        log_to_stderr(&settings, colour)?;
        let place = loopback(&settings.http).await?;
        let queues = queues(&settings).await?;
        let running = start(&settings).await.map_err(|error| Failure::new(Exit::Failed, error))?;
        let served = match listen(place).await {
            Ok(listener) => serve(&settings, listener, queues, "http", &running).await,
            Err(failure) => Err(failure),
        };
        running.shut_down().await;
        served
    }

    fn overrides(self) -> Overrides {
        Overrides {
            data: self.data,
            http: self.http,
            slots: self.slots,
            store: Store { durability: self.durability, ..Store::default() },
            leases: Leases { attempt: self.attempt_lease.map(Span), shard: self.shard_lease.map(Span) },
            server: settings::Server { ui_dir: self.ui_dir, ..settings::Server::default() },
            resp: RespOverrides {
                listen: self.resp,
                password_file: self.resp_password_file,
                idle_time: self.resp_idle_time.map(Span),
                ..RespOverrides::default()
            },
            log: Log { level: self.log },
            ..Overrides::default()
        }
    }
}

/// Starts a node that is alone on its store, without access control.
pub(crate) async fn start(settings: &Settings) -> anyhow::Result<Running> {
    let session = session()?;
    let store = wiring::open_store(settings, session).await?.store;
    let mut parts = Parts::new("dev", session, store, settings);
    parts.access = Some(Access { console: console(settings), ..Access::default() });
    wiring::start(settings, parts).await
}

/// Opens the Redis-protocol endpoint. If its default port is taken, perhaps by Disque, warns and continues without it.
async fn queues(settings: &Settings) -> Result<Option<Queues>, Failure> {
    let Some(listen) = &settings.resp.listen else { return Ok(None) };
    let place = loopback(listen).await?;
    match Queues::open(settings, place).await {
        // A configured password means that the endpoint is wanted.
        Err(_) if !settings.resp.is_asked_for && settings.resp.password_file.is_none() => {
            warn!(%place, "the port for queues is taken: going on without; --resp 127.0.0.1:0 picks a free one");
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

/// `dev` has no access control, so it listens on this machine only.
async fn loopback(http: &str) -> Result<SocketAddr, Failure> {
    let address = resolve(http).await?;
    if !address.ip().is_loopback() {
        let message =
            format!("`dev` does not listen on {http}: it asks for no login, so it serves this machine only");
        return Err(Failure::new(Exit::Usage, message)
            .hint("use 127.0.0.1 or localhost; `punctual server` asks for a token and serves others"));
    }
    Ok(address)
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
