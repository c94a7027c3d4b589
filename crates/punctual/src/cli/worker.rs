//! `punctual worker`: executes what scheduling nodes assign.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use punctual_core::limits::{LABELS_MAX, NAME_BYTES_MAX, WORKER_SLOTS_MAX};
use punctual_core::task::Kind;
use punctual_core::worker::Announcement;
use punctual_worker::function::Functions;
use punctual_worker::session::{Authorities, Ended, Status};
use tokio::sync::watch;
use tracing::warn;

use super::failure::{Exit, Failure};
use super::output::{Colour, print};
use super::serving::{asked_to_stop, log_to_stderr};
use super::time::duration;
use crate::settings::{Log, Overrides, Settings};
use crate::wiring::{OWN_BINARY, Remote, stopped, work};

/// The file with the host name, the default name of a worker.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual worker                                            work for the node on this machine
  punctual worker --server https://a:7400,https://b:7400 --slots 16 --label disk=ssd
  punctual worker --allow http --name gateway-1              calls URLs and starts no program

The worker opens the connections and needs no port. One server is enough: it names the others.
SIGTERM or Ctrl-C stops the worker: it takes no more attempts, and running ones may finish within --drain.")]
pub(crate) struct Worker {
    /// Attempts that may run at once
    #[arg(long, value_name = "COUNT", env = "PUNCTUAL_SLOTS", default_value_t = 16, value_parser = slots)]
    slots: u32,
    /// The worker's name; it must be unique among running workers [default: the host name]
    #[arg(long, value_name = "NAME", env = "PUNCTUAL_WORKER_NAME", value_parser = name)]
    name: Option<String>,
    /// A label that jobs can select, such as disk=ssd; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// The kinds of tasks to run: noop, shell, process, http, grpc [default: all]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kind)]
    allow: Vec<Kind>,
    /// The worker's share of the runs of jobs with `route.strategy: weighted`
    #[arg(long, value_name = "WEIGHT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    weight: u32,
    /// A folder for this worker alone [default: ./punctual-worker]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// How long running attempts may take to finish after a request to stop
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = duration)]
    drain: Duration,
    /// What to log: error, warn, info, debug or trace, for all or by module [default: info]
    #[arg(long, value_name = "LEVEL", env = "PUNCTUAL_LOG")]
    log: Option<String>,
    /// A settings file; its `egress` section says which addresses HTTP and gRPC tasks may call
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
}

fn slots(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| (1..=WORKER_SLOTS_MAX).contains(count));
    count.ok_or_else(|| format!("1 to {WORKER_SLOTS_MAX}"))
}

fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(is_plain) {
        return Err(format!("1 to {NAME_BYTES_MAX} letters, digits, dots, dashes and underscores"));
    }
    Ok(text.to_owned())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it like disk=ssd".to_owned()),
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::parse(text).ok_or_else(|| format!("one of {}", Kind::ALL.map(Kind::as_str).join(", ")))
}

/// The host name, without characters that a worker's name may not have.
pub(super) fn hostname() -> String {
    let host = fs::read_to_string(HOSTNAME).unwrap_or_default();
    let plain: String = host.trim().chars().filter(|c| u8::try_from(*c).is_ok_and(is_plain)).collect();
    if plain.is_empty() { "worker".to_owned() } else { plain.chars().take(NAME_BYTES_MAX).collect() }
}

impl Worker {
    pub(crate) async fn run(
        self,
        servers: &str,
        token: Option<String>,
        ca: Option<PathBuf>,
        colour: Colour,
    ) -> Result<(), Failure> {
        let overrides = Overrides { log: Log { level: self.log.clone() }, ..Overrides::default() };
        let settings = Settings::read_for_worker(self.config.as_deref(), overrides)
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        log_to_stderr(&settings, colour)?;
        let ca = ca.map(Authorities::File);
        let remote = Remote { token, ca, ..self.remote(servers, &settings)? };
        let told = format!("worker {} takes up to {} attempts", remote.name, remote.announcement.slots);
        let (status_in, status) = watch::channel(Status::default());
        let (stop_in, stop) = watch::channel(false);
        let ended = tokio::select! {
            ended = work(remote, status_in, stopped(stop)) => ended,
            done = asked_to_stop(stop_in) => return done.map_err(Failure::io),
            failure = say_when_ready(status, &told) => return Err(failure),
        };
        ended.map_err(|ended| match ended {
            // The node's message says what is wrong and which option fixes it.
            Ended::Refused(refused) => Failure::new(Exit::Refused, refused),
            Ended::Worker(error) => Failure::new(Exit::Failed, error)
                .hint("give every worker of a machine a --data folder of its own"),
        })
    }

    fn remote(self, servers: &str, settings: &Settings) -> Result<Remote, Failure> {
        let with_scheme =
            |url: &str| if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let servers: Vec<String> =
            servers.split(',').map(str::trim).filter(|url| !url.is_empty()).map(with_scheme).collect();
        if servers.is_empty() {
            return Err(Failure::new(Exit::Usage, "--server: name at least one"));
        }
        let labels: BTreeMap<String, String> = self.labels.into_iter().collect();
        if labels.len() > LABELS_MAX {
            return Err(Failure::new(Exit::Usage, format!("--label: at most {LABELS_MAX}")));
        }
        let kinds = if self.allow.is_empty() { Kind::ALL.to_vec() } else { self.allow };
        Ok(Remote {
            servers,
            token: None,
            ca: None,
            name: self.name.unwrap_or_else(hostname),
            announcement: Announcement {
                slots: self.slots,
                labels,
                kinds: kinds.into_iter().collect(),
                functions: BTreeSet::new(),
                weight: self.weight,
                node_local: false,
            },
            data: self.data.unwrap_or_else(|| PathBuf::from("punctual-worker")),
            guardian: Some(OWN_BINARY.into()),
            drain: self.drain,
            egress: settings.egress.clone(),
            functions: Functions::default(),
        })
    }
}

/// Prints the nodes once the first has accepted this worker; before that, logs why none has. Ends if stdout
/// is closed.
async fn say_when_ready(mut status: watch::Receiver<Status>, told: &str) -> Failure {
    let mut told_trouble: Option<String> = None;
    loop {
        let Status { nodes, trouble } = status.borrow_and_update().clone();
        if !nodes.is_empty() {
            if let Err(failure) = print(&format!("{told}, from {}", nodes.join(" and "))) {
                return failure;
            }
            break;
        }
        if let Some(why) = trouble.filter(|why| told_trouble.as_ref() != Some(why)) {
            warn!(why, "no node takes this worker yet; it goes on trying");
            told_trouble = Some(why);
        }
        if status.changed().await.is_err() {
            break;
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_a_name_and_a_value() {
        assert_eq!(label("disk=ssd"), Ok(("disk".to_owned(), "ssd".to_owned())));
        assert_eq!(label("zone="), Ok(("zone".to_owned(), String::new())));
        assert!(label("disk").is_err() && label("=ssd").is_err());
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(name(&hostname()).is_ok());
    }
}
