//! What `dev` and `server` share: logging, listening, announcing the address, and stopping.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, IsTerminal};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process;

use punctual_server::{Console, resp};
use serde_json::json;
use tokio::net::{TcpListener, lookup_host};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::info;
use tracing_subscriber::EnvFilter;

use super::failure::{Exit, Failure};
use super::output::{Colour, print};
use super::secret_file;
use crate::settings::Settings;
use crate::wiring::{self, stopped};

/// Locked by the node of a data folder while it runs.
const LOCK_FILE: &str = "node.lock";
/// The file in the data folder with the address of the node.
const ADDRESS_FILE: &str = "punctual.json";

/// Parses HOST:PORT.
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
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(io::stderr);
    // An error of the log would be printed to stderr too, and a failed print is a panic of the thread that logs.
    log.log_internal_errors(false).init();
    Ok(())
}

/// Creates and locks a data folder: two nodes in one would overwrite the address file and end each other's attempts.
pub(super) fn own_data_folder(data: &Path) -> Result<File, Failure> {
    fs::create_dir_all(data).map_err(Failure::io)?;
    let lock = File::create(data.join(LOCK_FILE)).map_err(Failure::io)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::Error(error)) => Err(Failure::io(error)),
        Err(TryLockError::WouldBlock) => {
            let message = format!("another node uses the data folder {}", data.display());
            Err(Failure::new(Exit::Failed, message).hint("give every node a folder of its own with --data"))
        }
    }
}

/// Resolves an address to listen on.
pub(super) async fn resolve(address: &str) -> Result<SocketAddr, Failure> {
    let cannot =
        |why: &dyn fmt::Display| Failure::new(Exit::Usage, format!("cannot listen on {address}: {why}"));
    let mut found = lookup_host(address).await.map_err(|error| cannot(&error))?;
    found.next().ok_or_else(|| cannot(&"it has no address"))
}

/// Binds the address; connections are not answered yet.
pub(super) async fn listen(place: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(place).await.map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot listen on {place}: {error}"))
            .hint("--http 127.0.0.1:0 picks a free port")
    })
}

/// The console that the settings name: a folder, or the one in the binary.
pub(super) fn console(settings: &Settings) -> Console {
    match &settings.ui_dir {
        Some(folder) => Console::Folder(folder.clone()),
        None => Console::Embedded(punctual_console::FILES),
    }
}

/// The bound endpoint for queues; connections are not answered yet.
pub(super) struct Queues {
    listener: TcpListener,
    settings: resp::Settings,
}

impl Queues {
    pub(super) async fn open(settings: &Settings, place: SocketAddr) -> Result<Queues, Failure> {
        let own = &settings.resp;
        let password = own.password_file.as_deref().map(secret_file::read).transpose()?;
        let listener = TcpListener::bind(place).await.map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot listen on {place}: {error}"))
                .hint("--resp 127.0.0.1:0 picks a free port; for `disque-server` it is --port 0")
        })?;
        let settings = resp::Settings {
            password,
            connections: own.connections,
            connections_per_address: own.connections,
            request_time: settings.server.request_time,
            idle_time: own.idle_time,
            open: own.open,
            flush: own.flush,
            shutdown: None,
            rest_url: None,
        };
        Ok(Queues { listener, settings })
    }
}

/// Announces the address, and serves until a stop is requested or the node fails.
pub(super) async fn serve(
    settings: &Settings,
    listener: TcpListener,
    queues: Option<Queues>,
    scheme: &str,
    running: &wiring::Running,
) -> Result<(), Failure> {
    let place = listener.local_addr().map_err(Failure::io)?;
    running.announce(place);
    let queues_at = queues.as_ref().map(|queues| queues.listener.local_addr()).transpose();
    let queues_at = queues_at.map_err(Failure::io)?;
    queues_at.into_iter().for_each(|place| running.forbid_calls_to(place));
    let address = AddressFile::write(&settings.data, scheme, place, queues_at).map_err(Failure::io)?;
    let queues_said = queues_at.map_or(String::new(), |at| format!(", queues on {at}"));
    print(&format!(
        "punctual listens on {scheme}://{place}{queues_said}, data in {}\nthe console is at {}",
        settings.data.display(),
        console_address(scheme, place)
    ))?;
    let (stop_in, stop) = watch::channel(false);
    let endpoints = running.endpoints().with_queues_at(queues_at);
    let both = async {
        let queues = queues.map(|Queues { listener, settings: mut own }| {
            own.shutdown = settings.resp.shutdown.then(|| stop_in.clone());
            own.rest_url = Some(format!("{scheme}://{place}"));
            resp::serve(listener, running.endpoints(), own, stopped(stop.clone()))
        });
        let (http, queues) =
            tokio::join!(punctual_server::serve(listener, endpoints, stopped(stop.clone())), async {
                match queues {
                    Some(queues) => queues.await,
                    None => Ok(()),
                }
            });
        http.and(queues)
    };
    let done = tokio::select! {
        done = both => done.map_err(Failure::io),
        failed = running.failed() => Err(Failure::new(Exit::Failed, failed)),
        done = asked_to_stop(stop_in.clone()) => done.map_err(Failure::io),
    };
    address.remove();
    done
}

/// The address to open in a browser on this machine.
fn console_address(scheme: &str, place: SocketAddr) -> String {
    let host = match place {
        _ if !place.ip().is_unspecified() => place.ip(),
        SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    format!("{scheme}://{}/", SocketAddr::new(host, place.port()))
}

/// Sends `true` at the first SIGTERM or SIGINT; returns at the second, which means stop at once.
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

/// The address file. A killed process leaves it behind; the next start overwrites it.
struct AddressFile(PathBuf);

impl AddressFile {
    /// Writes a temporary file and renames it, so that a reader never sees a part of it.
    fn write(
        data: &Path,
        scheme: &str,
        place: SocketAddr,
        queues: Option<SocketAddr>,
    ) -> io::Result<AddressFile> {
        let path = data.join(ADDRESS_FILE);
        let aside = data.join(format!("{ADDRESS_FILE}.new"));
        let url = format!("{scheme}://{place}");
        let mut text = json!({ "http": place.to_string(), "url": url, "pid": process::id() });
        if let Some(queues) = queues {
            text["resp"] = json!(queues.to_string());
        }
        fs::write(&aside, format!("{text}\n"))?;
        fs::rename(&aside, &path)?;
        Ok(AddressFile(path))
    }

    fn remove(self) {
        // If this fails, the stale file does little harm: its process id no longer exists.
        let _ = fs::remove_file(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_has_an_address_that_a_browser_can_open() {
        let address = |place: &str| console_address("http", place.parse().unwrap());
        assert_eq!(address("127.0.0.1:7400"), "http://127.0.0.1:7400/");
        assert_eq!(address("0.0.0.0:80"), "http://127.0.0.1:80/");
        assert_eq!(address("[::]:80"), "http://[::1]:80/");
    }
}
