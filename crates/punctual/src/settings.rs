//! Settings: the built-in defaults, overridden by a file, then by the environment and the command line.
//!
//! `punctual.toml` at the root of the repository is documentation, defaults and template in one: it is read
//! first, so a setting that is not explained there does not exist.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_core::ids::SHARDS_MAX;
use punctual_core::limits::WORKER_SLOTS_MAX;
use punctual_core::queue::QueueName;
use punctual_wire::text::Span;
use punctual_wire::tree;
use punctual_worker::{NotARule, Rule};
use serde::Deserialize;

use crate::alerts::settings::{self as alerts, ChannelFile};

/// The shortest interval of clock checks; a shorter one would keep an idle process busy.
const LOOK_MIN: Duration = Duration::from_millis(100);

pub const DEFAULTS: &str = include_str!("../../../punctual.toml");

/// The complete settings of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub data: PathBuf,
    /// HOST:PORT.
    pub http: String,
    pub slots: usize,
    /// The store: `sqlite`, or a URL.
    pub store: String,
    pub durability: Durability,
    pub shards: u16,
    pub attempt_lease: Duration,
    /// See [`punctual_engine::Settings::records`]; no file or flag sets it.
    pub records: bool,
    pub shard_lease: Duration,
    /// The longest interval between clock checks.
    pub look: Duration,
    pub egress: Vec<Rule>,
    pub alerts: alerts::Settings,
    pub server: punctual_server::Settings,
    /// Whether to listen beyond this machine without TLS.
    pub insecure: bool,
    pub bootstrap_token_file: Option<PathBuf>,
    /// The folder with the files of the console. `None` means the files in the binary.
    pub ui_dir: Option<PathBuf>,
    pub tls: Option<punctual_server::Files>,
    pub resp: Resp,
    /// The queue for progress reports. `None` means that there is none.
    pub progress_queue: Option<QueueName>,
    pub log_level: String,
}

/// The Redis-protocol endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resp {
    /// HOST:PORT. `None` means that the endpoint is closed.
    pub listen: Option<String>,
    /// Whether a user configured the endpoint: then a taken port is an error.
    pub is_asked_for: bool,
    pub password_file: Option<PathBuf>,
    /// Clients on this machine need no authentication, even if REST does.
    pub open: bool,
    pub connections: usize,
    /// How long a client may be idle. `None` means forever.
    pub idle_time: Option<Duration>,
    /// Whether DEBUG FLUSHALL and SHUTDOWN are allowed.
    pub flush: bool,
    pub shutdown: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    Full,
    Relaxed,
}

impl From<Durability> for punctual_store::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Full => punctual_store::Durability::Full,
            Durability::Relaxed => punctual_store::Durability::Relaxed,
        }
    }
}

/// The settings of one source; a later source may override them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overrides {
    pub data: Option<PathBuf>,
    pub http: Option<String>,
    pub slots: Option<usize>,
    pub store: Store,
    pub leases: Leases,
    pub clock: Clock,
    pub egress: Egress,
    pub alerts: Alerts,
    pub server: Server,
    pub tls: Tls,
    pub resp: RespOverrides,
    pub progress: Progress,
    pub log: Log,
}

/// Declares sections of the settings file. In `over`, the settings of the later source win.
macro_rules! sections {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty,)* })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(pub $field: Option<$kind>,)*
        }

        impl $name {
            fn over(self, below: $name) -> $name {
                $name { $($field: self.$field.or(below.$field),)* }
            }
        }
    )* };
}

sections! {
    Store { url: String, durability: Durability, shards: u16, }
    Leases { attempt: Span, shard: Span, }
    Clock { look: Span, }
    Egress { allow: Vec<String>, }
    /// An empty address of the console counts as absent.
    Alerts { default: Vec<String>, language: String, console: String, channels: BTreeMap<String, ChannelFile>, }
    Server {
        connections: usize,
        connections_per_address: usize,
        request_time: Span,
        hosts: Vec<String>,
        insecure: bool,
        bootstrap_token_file: PathBuf,
        ui_dir: PathBuf,
    }
    /// An empty path counts as absent.
    Tls { cert: PathBuf, key: PathBuf, client_ca: PathBuf, }
    /// An empty address counts as absent.
    RespOverrides {
        listen: String,
        password_file: PathBuf,
        open: bool,
        connections: usize,
        idle_time: Span,
        flush: bool,
        shutdown: bool,
    }
    /// An empty name means no queue.
    Progress { queue: String, }
    Log { level: String, }
}

impl Settings {
    /// Later sources win: the defaults, the file, then the command line and the environment.
    pub fn read(file: Option<&Path>, overrides: Overrides) -> Result<Settings, String> {
        let overrides = overrides.over(read_file(file)?);
        let is_asked_for = overrides.resp.listen.is_some();
        Ok(overrides.over(defaults()?).complete()?.asked_for(is_asked_for))
    }

    /// The same for `punctual server`, with safe defaults, because others write the jobs.
    pub fn read_for_server(file: Option<&Path>, overrides: Overrides) -> Result<Settings, String> {
        let overrides = overrides.over(read_file(file)?);
        // If the store has a folder, use it as the data folder.
        let data = overrides.store.url.as_deref().and_then(punctual_store::folder);
        let egress = Egress { allow: Some(Vec::new()) };
        // By default the second port is closed.
        let resp = RespOverrides { listen: Some(String::new()), ..RespOverrides::default() };
        let safe = Overrides { data, slots: Some(0), egress, resp, ..Overrides::default() };
        Ok(overrides.over(safe).over(defaults()?).complete()?.asked_for(true))
    }

    /// The same for `punctual worker` and embedded nodes: HTTP targets have safe defaults, because others write the jobs.
    pub fn read_for_worker(file: Option<&Path>, overrides: Overrides) -> Result<Settings, String> {
        let safe = Overrides { egress: Egress { allow: Some(Vec::new()) }, ..Overrides::default() };
        overrides.over(read_file(file)?).over(safe).over(defaults()?).complete()
    }

    fn asked_for(mut self, is_asked_for: bool) -> Settings {
        self.resp.is_asked_for = is_asked_for;
        self
    }
}

fn read_file(file: Option<&Path>) -> Result<Overrides, String> {
    let Some(path) = file else { return Ok(Overrides::default()) };
    let about = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| about(&error))?;
    parse(&text).map_err(|error| about(&error))
}

fn defaults() -> Result<Overrides, String> {
    parse(DEFAULTS).map_err(|error| format!("punctual.toml: {error}"))
}

fn parse(text: &str) -> Result<Overrides, String> {
    toml::from_str(text).map_err(|error| explain(text, &error))
}

/// The line of an error, and a suggestion from the parser of job files, which suggests the intended field.
fn explain(text: &str, error: &toml::de::Error) -> String {
    let meant = toml::from_str::<toml::Table>(text).ok();
    let meant = meant.and_then(|table| serde_json::to_vec(&table).ok());
    let meant = meant.and_then(|bytes| tree::from_json::<Overrides>(&bytes).err());
    let message = meant.map_or_else(|| error.message().to_owned(), |meant| meant.to_string());
    match error.span() {
        Some(span) => {
            let line = 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
            format!("line {line}: {message}")
        }
        None => message,
    }
}

impl Overrides {
    fn over(self, below: Overrides) -> Overrides {
        Overrides {
            data: self.data.or(below.data),
            http: self.http.or(below.http),
            slots: self.slots.or(below.slots),
            store: self.store.over(below.store),
            leases: self.leases.over(below.leases),
            clock: self.clock.over(below.clock),
            egress: self.egress.over(below.egress),
            alerts: self.alerts.over(below.alerts),
            server: self.server.over(below.server),
            tls: self.tls.over(below.tls),
            resp: self.resp.over(below.resp),
            progress: self.progress.over(below.progress),
            log: self.log.over(below.log),
        }
    }

    fn complete(self) -> Result<Settings, String> {
        let egress = given(self.egress.allow, "egress.allow")?;
        let egress = egress.iter().map(|rule| rule.parse()).collect::<Result<_, NotARule>>();
        let settings = Settings {
            data: given(self.data, "data")?,
            http: given(self.http, "http")?,
            slots: given(self.slots, "slots")?,
            store: given(self.store.url, "store.url")?,
            durability: given(self.store.durability, "store.durability")?,
            shards: given(self.store.shards, "store.shards")?,
            records: true,
            attempt_lease: given(self.leases.attempt, "leases.attempt")?.0,
            shard_lease: given(self.leases.shard, "leases.shard")?.0,
            look: given(self.clock.look, "clock.look")?.0,
            egress: egress.map_err(|error| format!("egress.allow: {error}"))?,
            alerts: self.alerts.complete()?,
            insecure: given(self.server.insecure, "server.insecure")?,
            bootstrap_token_file: given_path(self.server.bootstrap_token_file.as_ref()),
            ui_dir: given_path(self.server.ui_dir.as_ref()),
            server: self.server.complete()?,
            tls: self.tls.complete()?,
            resp: self.resp.complete()?,
            progress_queue: self.progress.complete()?,
            log_level: given(self.log.level, "log.level")?,
        };
        if settings.slots > WORKER_SLOTS_MAX as usize {
            return Err(format!("slots: at most {WORKER_SLOTS_MAX}"));
        }
        if !(1..=SHARDS_MAX).contains(&settings.shards) {
            return Err(format!("store.shards: 1 to {SHARDS_MAX}"));
        }
        let second = Duration::from_secs(1);
        if settings.attempt_lease < second || settings.shard_lease < second {
            return Err("leases: must be at least 1s each".to_owned());
        }
        if settings.look < LOOK_MIN {
            return Err("clock.look: must be at least 100ms".to_owned());
        }
        Ok(settings)
    }
}

impl Alerts {
    fn complete(self) -> Result<alerts::Settings, String> {
        let channels = self.channels.unwrap_or_default();
        let (default, language, console) = (
            given(self.default, "alerts.default")?,
            given(self.language, "alerts.language")?,
            given(self.console, "alerts.console")?,
        );
        alerts::Settings::read(channels, &default, &language, &console)
    }
}

impl Server {
    fn complete(self) -> Result<punctual_server::Settings, String> {
        let settings = punctual_server::Settings {
            connections: given(self.connections, "server.connections")?,
            connections_per_address: given(self.connections_per_address, "server.connections_per_address")?,
            request_time: given(self.request_time, "server.request_time")?.0,
            hosts: given(self.hosts, "server.hosts")?,
        };
        if settings.connections == 0 || settings.connections_per_address == 0 {
            return Err("server.connections, server.connections_per_address: must be at least 1".to_owned());
        }
        if settings.request_time < Duration::from_secs(1) {
            return Err("server.request_time: must be at least 1s".to_owned());
        }
        Ok(settings)
    }
}

impl RespOverrides {
    fn complete(self) -> Result<Resp, String> {
        let resp = Resp {
            listen: self.listen.filter(|listen| !listen.is_empty()),
            is_asked_for: false,
            password_file: given_path(self.password_file.as_ref()),
            open: given(self.open, "resp.open")?,
            connections: given(self.connections, "resp.connections")?,
            idle_time: Some(given(self.idle_time, "resp.idle_time")?.0)
                .filter(|idle_time| !idle_time.is_zero()),
            flush: given(self.flush, "resp.flush")?,
            shutdown: given(self.shutdown, "resp.shutdown")?,
        };
        if resp.connections == 0 {
            return Err("resp.connections: must be at least 1".to_owned());
        }
        if resp.open && resp.password_file.is_some() {
            return Err("resp.open: excludes resp.password_file; leave one of them out".to_owned());
        }
        if resp.idle_time.is_some_and(|idle_time| idle_time < Duration::from_secs(1)) {
            return Err("resp.idle_time: must be at least 1s, or 0s for no timeout".to_owned());
        }
        Ok(resp)
    }
}

impl Progress {
    fn complete(self) -> Result<Option<QueueName>, String> {
        let name = Some(given(self.queue, "progress.queue")?).filter(|name| !name.is_empty());
        name.map(|name| name.parse::<QueueName>())
            .transpose()
            .map_err(|error| format!("progress.queue: {error}"))
    }
}

impl Tls {
    fn complete(self) -> Result<Option<punctual_server::Files>, String> {
        let [cert, key, client_ca] =
            [self.cert, self.key, self.client_ca].map(|path| given_path(path.as_ref()));
        match (cert, key) {
            (Some(cert), Some(key)) => Ok(Some(punctual_server::Files { cert, key, client_ca })),
            (None, None) if client_ca.is_none() => Ok(None),
            (None, None) => {
                Err("tls.client_ca: needs a certificate of our own, tls.cert and tls.key".to_owned())
            }
            _ => Err("tls: cert and key go together".to_owned()),
        }
    }
}

fn given<T>(value: Option<T>, name: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("{name}: no default is known"))
}

fn given_path(path: Option<&PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty()).cloned()
}

#[cfg(test)]
mod tests;
