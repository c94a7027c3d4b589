//! What every node that serves does: log, listen, say where, and stop when it is asked to.

use std::fs;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::info;
use tracing_subscriber::EnvFilter;

use super::failure::{Exit, Failure};
use super::output::{Colour, print};
use crate::settings::Settings;
use crate::wiring;

/// Where the data folder says how to reach the node.
const ADDRESS_FILE: &str = "punctual.json";

/// HOST:PORT, as an option takes it.
pub(super) fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("write it like 127.0.0.1:7400".to_owned()),
    }
}

pub(super) fn log_to_stderr(settings: &Settings, colour: Colour) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&settings.log_level)
        .map_err(|error| Failure::new(Exit::Usage, format!("log level `{}`: {error}", settings.log_level)))?;
    let colour = colour.is_wanted(io::stderr().is_terminal());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(io::stderr).init();
    Ok(())
}

/// Takes the place to listen at; nobody is answered yet.
pub(super) async fn listen(place: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(place).await.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot listen on {place}: {error}"))
            .hint("--http 127.0.0.1:0 picks a free port")
    })
}

/// Says where, and serves until someone asks for the end or the node cannot go on.
pub(super) async fn serve(
    settings: &Settings,
    listener: TcpListener,
    scheme: &str,
    running: &wiring::Running,
) -> Result<(), Failure> {
    let place = listener.local_addr().map_err(Failure::io)?;
    running.listens_on(place);
    let address = AddressFile::write(&settings.data, scheme, place).map_err(Failure::io)?;
    print(&format!("punctual listens on {scheme}://{place}, data in {}", settings.data.display()))?;
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
pub(super) async fn asked_to_stop(stop: watch::Sender<bool>) -> io::Result<()> {
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

pub(super) async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that nobody is left to ask, which comes to the same.
    drop(stop.wait_for(|stop| *stop).await);
}

/// Says where the node listens. A process that was killed leaves it behind; the next start writes it anew.
struct AddressFile(PathBuf);

impl AddressFile {
    /// Written aside and renamed: whoever reads it finds all of it or nothing.
    fn write(data: &Path, scheme: &str, place: SocketAddr) -> io::Result<AddressFile> {
        let path = data.join(ADDRESS_FILE);
        let aside = data.join(format!("{ADDRESS_FILE}.new"));
        let url = format!("{scheme}://{place}");
        let text = json!({ "http": place.to_string(), "url": url, "pid": process::id() });
        fs::write(&aside, format!("{text}\n"))?;
        fs::rename(&aside, &path)?;
        Ok(AddressFile(path))
    }

    fn remove(self) {
        // It misleads nobody for long: its pid is gone.
        let _ = fs::remove_file(self.0);
    }
}
