//! Settings: the built-in defaults, overridden by a file, then by the environment and the command line.
//!
//! `punctual.toml` at the root of the repository is documentation, defaults and template in one: it is read
//! first, so a setting that is not explained there does not exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_core::ids::SHARDS_MAX;
use punctual_core::limits::WORKER_SLOTS_MAX;
use punctual_wire::text::Span;
use punctual_wire::tree;
use punctual_worker::{NotARule, Rule};
use serde::Deserialize;

/// The shortest interval of clock checks; a shorter one would keep an idle process busy.
const LOOK_MIN: Duration = Duration::from_millis(100);

pub(crate) const DEFAULTS: &str = include_str!("../../../punctual.toml");

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) data: PathBuf,
    /// HOST:PORT.
    pub(crate) http: String,
    pub(crate) slots: usize,
    /// The store: `sqlite`, or a URL.
    pub(crate) store: String,
    pub(crate) durability: Durability,
    pub(crate) shards: u16,
    pub(crate) attempt_lease: Duration,
    pub(crate) shard_lease: Duration,
    /// The longest interval between clock checks.
    pub(crate) look: Duration,
    pub(crate) egress: Vec<Rule>,
    pub(crate) server: punctual_server::Settings,
    /// Whether to listen beyond this machine without TLS.
    pub(crate) insecure: bool,
    pub(crate) bootstrap_token_file: Option<PathBuf>,
    pub(crate) tls: Option<punctual_server::Files>,
    pub(crate) resp: Resp,
    pub(crate) log_level: String,
}

/// The Redis-protocol endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resp {
    /// HOST:PORT. `None` means that the endpoint is closed.
    pub(crate) listen: Option<String>,
    /// Whether a user configured the endpoint: then a taken port is an error.
    pub(crate) is_asked_for: bool,
    pub(crate) password_file: Option<PathBuf>,
    /// Clients on this machine need no authentication, even if REST does.
    pub(crate) open: bool,
    pub(crate) connections: usize,
    /// How long a client may be idle. `None` means forever.
    pub(crate) idle_time: Option<Duration>,
    /// Whether DEBUG FLUSHALL and SHUTDOWN are allowed.
    pub(crate) flush: bool,
    pub(crate) shutdown: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durability {
    Full,
    Relaxed,
}

/// The settings of one source; a later source may override them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    pub(crate) data: Option<PathBuf>,
    pub(crate) http: Option<String>,
    pub(crate) slots: Option<usize>,
    #[serde(default)]
    pub(crate) store: Store,
    #[serde(default)]
    pub(crate) leases: Leases,
    #[serde(default)]
    pub(crate) clock: Clock,
    #[serde(default)]
    pub(crate) egress: Egress,
    #[serde(default)]
    pub(crate) server: Server,
    #[serde(default)]
    pub(crate) tls: Tls,
    #[serde(default)]
    pub(crate) resp: SaidResp,
    #[serde(default)]
    pub(crate) log: Log,
}

/// An empty address counts as absent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaidResp {
    pub(crate) listen: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) open: Option<bool>,
    pub(crate) connections: Option<usize>,
    pub(crate) idle_time: Option<Span>,
    pub(crate) flush: Option<bool>,
    pub(crate) shutdown: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Store {
    pub(crate) url: Option<String>,
    pub(crate) durability: Option<Durability>,
    pub(crate) shards: Option<u16>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Leases {
    pub(crate) attempt: Option<Span>,
    pub(crate) shard: Option<Span>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clock {
    pub(crate) look: Option<Span>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Egress {
    pub(crate) allow: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) connections: Option<usize>,
    pub(crate) connections_per_address: Option<usize>,
    pub(crate) request_time: Option<Span>,
    pub(crate) hosts: Option<Vec<String>>,
    pub(crate) insecure: Option<bool>,
    pub(crate) bootstrap_token_file: Option<PathBuf>,
}

/// An empty path counts as absent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) client_ca: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) level: Option<String>,
}

impl Settings {
    /// Later sources win: the defaults, the file, then the command line and the environment.
    pub(crate) fn read(file: Option<&Path>, said: Said) -> Result<Settings, String> {
        let said = said.over(read_file(file)?);
        let is_asked_for = said.resp.listen.is_some();
        Ok(said.over(defaults()?).complete()?.asked_for(is_asked_for))
    }

    /// The same for `punctual server`, with safe defaults, because others write the jobs.
    pub(crate) fn read_for_server(file: Option<&Path>, said: Said) -> Result<Settings, String> {
        let said = said.over(read_file(file)?);
        // If the store has a folder, use it as the data folder.
        let data = said.store.url.as_deref().and_then(punctual_store::folder);
        let egress = Egress { allow: Some(Vec::new()) };
        // By default the second port is closed.
        let resp = SaidResp { listen: Some(String::new()), ..SaidResp::default() };
        let safe = Said { data, slots: Some(0), egress, resp, ..Said::default() };
        Ok(said.over(safe).over(defaults()?).complete()?.asked_for(true))
    }

    /// The same for `punctual worker`: HTTP targets have safe defaults, because others write the jobs.
    pub(crate) fn read_for_worker(file: Option<&Path>, said: Said) -> Result<Settings, String> {
        let safe = Said { egress: Egress { allow: Some(Vec::new()) }, ..Said::default() };
        said.over(read_file(file)?).over(safe).over(defaults()?).complete()
    }

    fn asked_for(mut self, is_asked_for: bool) -> Settings {
        self.resp.is_asked_for = is_asked_for;
        self
    }
}

fn read_file(file: Option<&Path>) -> Result<Said, String> {
    let Some(path) = file else { return Ok(Said::default()) };
    let about = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| about(&error))?;
    parse(&text).map_err(|error| about(&error))
}

fn defaults() -> Result<Said, String> {
    parse(DEFAULTS).map_err(|error| format!("punctual.toml: {error}"))
}

fn parse(text: &str) -> Result<Said, String> {
    toml::from_str(text).map_err(|error| explain(text, &error))
}

/// The line of an error, and a suggestion from the parser of job files, which suggests the intended field.
fn explain(text: &str, error: &toml::de::Error) -> String {
    let meant = toml::from_str::<toml::Table>(text).ok();
    let meant = meant.and_then(|table| serde_json::to_vec(&table).ok());
    let meant = meant.and_then(|bytes| tree::from_json::<Said>(&bytes).err());
    let message = meant.map_or_else(|| error.message().to_owned(), |meant| meant.to_string());
    match error.span() {
        Some(span) => {
            let line = 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count();
            format!("line {line}: {message}")
        }
        None => message,
    }
}

impl Said {
    fn over(self, below: Said) -> Said {
        Said {
            data: self.data.or(below.data),
            http: self.http.or(below.http),
            slots: self.slots.or(below.slots),
            store: Store {
                url: self.store.url.or(below.store.url),
                durability: self.store.durability.or(below.store.durability),
                shards: self.store.shards.or(below.store.shards),
            },
            leases: Leases {
                attempt: self.leases.attempt.or(below.leases.attempt),
                shard: self.leases.shard.or(below.leases.shard),
            },
            clock: Clock { look: self.clock.look.or(below.clock.look) },
            egress: Egress { allow: self.egress.allow.or(below.egress.allow) },
            server: self.server.over(below.server),
            tls: self.tls.over(below.tls),
            resp: self.resp.over(below.resp),
            log: Log { level: self.log.level.or(below.log.level) },
        }
    }

    fn complete(self) -> Result<Settings, String> {
        let missing = |name: &str| format!("{name}: no default is known");
        let egress = self.egress.allow.ok_or_else(|| missing("egress.allow"))?;
        let egress = egress.iter().map(|rule| rule.parse()).collect::<Result<_, NotARule>>();
        let settings = Settings {
            data: self.data.ok_or_else(|| missing("data"))?,
            http: self.http.ok_or_else(|| missing("http"))?,
            slots: self.slots.ok_or_else(|| missing("slots"))?,
            store: self.store.url.ok_or_else(|| missing("store.url"))?,
            durability: self.store.durability.ok_or_else(|| missing("store.durability"))?,
            shards: self.store.shards.ok_or_else(|| missing("store.shards"))?,
            attempt_lease: self.leases.attempt.ok_or_else(|| missing("leases.attempt"))?.0,
            shard_lease: self.leases.shard.ok_or_else(|| missing("leases.shard"))?.0,
            look: self.clock.look.ok_or_else(|| missing("clock.look"))?.0,
            egress: egress.map_err(|error| format!("egress.allow: {error}"))?,
            insecure: self.server.insecure.ok_or_else(|| missing("server.insecure"))?,
            bootstrap_token_file: said_path(self.server.bootstrap_token_file.as_ref()),
            server: self.server.complete()?,
            tls: self.tls.complete()?,
            resp: self.resp.complete()?,
            log_level: self.log.level.ok_or_else(|| missing("log.level"))?,
        };
        if settings.slots > WORKER_SLOTS_MAX as usize {
            return Err(format!("slots: at most {WORKER_SLOTS_MAX}"));
        }
        if !(1..=SHARDS_MAX).contains(&settings.shards) {
            return Err(format!("store.shards: 1 to {SHARDS_MAX}"));
        }
        let second = Duration::from_secs(1);
        if settings.attempt_lease < second || settings.shard_lease < second {
            return Err("leases: at least 1s each".to_owned());
        }
        if settings.look < LOOK_MIN {
            return Err("clock.look: at least 100ms".to_owned());
        }
        Ok(settings)
    }
}

impl Server {
    fn over(self, below: Server) -> Server {
        Server {
            connections: self.connections.or(below.connections),
            connections_per_address: self.connections_per_address.or(below.connections_per_address),
            request_time: self.request_time.or(below.request_time),
            hosts: self.hosts.or(below.hosts),
            insecure: self.insecure.or(below.insecure),
            bootstrap_token_file: self.bootstrap_token_file.or(below.bootstrap_token_file),
        }
    }

    fn complete(self) -> Result<punctual_server::Settings, String> {
        let missing = |name: &str| format!("server.{name}: no default is known");
        let settings = punctual_server::Settings {
            connections: self.connections.ok_or_else(|| missing("connections"))?,
            connections_per_address: self
                .connections_per_address
                .ok_or_else(|| missing("connections_per_address"))?,
            request_time: self.request_time.ok_or_else(|| missing("request_time"))?.0,
            hosts: self.hosts.ok_or_else(|| missing("hosts"))?,
        };
        if settings.connections == 0 || settings.connections_per_address == 0 {
            return Err("server.connections: at least 1, from each address too".to_owned());
        }
        if settings.request_time < Duration::from_secs(1) {
            return Err("server.request_time: at least 1s".to_owned());
        }
        Ok(settings)
    }
}

impl SaidResp {
    fn over(self, below: SaidResp) -> SaidResp {
        SaidResp {
            listen: self.listen.or(below.listen),
            password_file: self.password_file.or(below.password_file),
            open: self.open.or(below.open),
            connections: self.connections.or(below.connections),
            idle_time: self.idle_time.or(below.idle_time),
            flush: self.flush.or(below.flush),
            shutdown: self.shutdown.or(below.shutdown),
        }
    }

    fn complete(self) -> Result<Resp, String> {
        let missing = |name: &str| format!("resp.{name}: no default is known");
        let resp = Resp {
            listen: self.listen.filter(|listen| !listen.is_empty()),
            is_asked_for: false,
            password_file: said_path(self.password_file.as_ref()),
            open: self.open.ok_or_else(|| missing("open"))?,
            connections: self.connections.ok_or_else(|| missing("connections"))?,
            idle_time: Some(self.idle_time.ok_or_else(|| missing("idle_time"))?.0)
                .filter(|idle_time| !idle_time.is_zero()),
            flush: self.flush.ok_or_else(|| missing("flush"))?,
            shutdown: self.shutdown.ok_or_else(|| missing("shutdown"))?,
        };
        if resp.connections == 0 {
            return Err("resp.connections: at least 1".to_owned());
        }
        if resp.open && resp.password_file.is_some() {
            return Err("resp.open: goes without a password; leave out resp.password_file".to_owned());
        }
        if resp.idle_time.is_some_and(|idle_time| idle_time < Duration::from_secs(1)) {
            return Err("resp.idle_time: at least 1s, or 0s for ever".to_owned());
        }
        Ok(resp)
    }
}

impl Tls {
    fn over(self, below: Tls) -> Tls {
        Tls {
            cert: self.cert.or(below.cert),
            key: self.key.or(below.key),
            client_ca: self.client_ca.or(below.client_ca),
        }
    }

    fn complete(self) -> Result<Option<punctual_server::Files>, String> {
        let [cert, key, client_ca] =
            [self.cert, self.key, self.client_ca].map(|path| said_path(path.as_ref()));
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

fn said_path(path: Option<&PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, said: Said) -> Result<Settings, String> {
        said.over(parse(file)?).over(parse(DEFAULTS)?).complete()
    }

    #[test]
    fn the_embedded_file_says_everything() {
        let settings = read("", Said::default()).unwrap();
        assert_eq!(settings.http, "127.0.0.1:7400");
        assert_eq!((settings.slots, settings.shards, settings.durability), (16, 64, Durability::Full));
        assert_eq!(settings.attempt_lease, Duration::from_secs(15));
        assert_eq!(settings.look, Duration::from_secs(3600));
        assert_eq!(settings.egress, [Rule::Loopback, Rule::Private]);
        assert_eq!(
            settings.server,
            punctual_server::Settings::default(),
            "the file and the code say the same"
        );
    }

    #[test]
    fn a_server_works_and_calls_only_if_told_so_and_keeps_its_data_beside_its_store() {
        let said = |url: &str| Said {
            store: Store { url: Some(url.to_owned()), ..Store::default() },
            ..Said::default()
        };
        let settings = Settings::read_for_server(None, said("sqlite:/var/lib/x")).unwrap();
        assert_eq!((settings.slots, settings.data.to_str()), (0, Some("/var/lib/x")));
        assert_eq!((settings.egress, settings.tls, settings.insecure), (vec![], None, false));
        let elsewhere = Said { data: Some("/srv/x".into()), slots: Some(2), ..said("sqlite:/var/lib/x") };
        let settings = Settings::read_for_server(None, elsewhere).unwrap();
        assert_eq!((settings.slots, settings.data.to_str()), (2, Some("/srv/x")));
    }

    #[test]
    fn tasks_of_a_worker_reach_private_networks_only_if_told_so() {
        assert_eq!(Settings::read_for_worker(None, Said::default()).unwrap().egress, []);
        let egress = Egress { allow: Some(vec!["loopback".to_owned()]) };
        let told = Said { egress, ..Said::default() };
        assert_eq!(Settings::read_for_worker(None, told).unwrap().egress, [Rule::Loopback]);
    }

    #[test]
    fn the_endpoint_for_queues_is_open_in_dev_and_closed_in_a_server_until_it_is_asked_for() {
        let dev = Settings::read(None, Said::default()).unwrap().resp;
        assert_eq!((dev.listen.as_deref(), dev.is_asked_for), (Some("127.0.0.1:7711"), false));
        assert_eq!((dev.password_file, dev.flush, dev.shutdown), (None, false, false));
        assert_eq!(Settings::read_for_server(None, Said::default()).unwrap().resp.listen, None);
        let asked = Said {
            resp: SaidResp { listen: Some("127.0.0.1:0".to_owned()), ..SaidResp::default() },
            ..Said::default()
        };
        for settings in [Settings::read(None, asked.clone()), Settings::read_for_server(None, asked)] {
            let resp = settings.unwrap().resp;
            assert_eq!((resp.listen.as_deref(), resp.is_asked_for), (Some("127.0.0.1:0"), true));
        }
    }

    #[test]
    fn a_file_wins_over_the_defaults_and_the_command_line_over_both() {
        let file = "slots = 4\nhttp = \"127.0.0.1:1\"\n[leases]\nattempt = \"2s\"\n[egress]\nallow = []\n";
        let said = Said { http: Some("127.0.0.1:0".to_owned()), ..Said::default() };
        let settings = read(file, said).unwrap();
        assert_eq!((settings.slots, settings.http.as_str()), (4, "127.0.0.1:0"));
        assert_eq!((settings.attempt_lease.as_secs(), settings.shard_lease.as_secs()), (2, 3));
        assert_eq!(settings.egress, []);
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_name() {
        for (file, named) in [
            ("slot = 4", "slot"),
            ("[store]\nfsync = true", "fsync"),
            ("[lease]\nattempt = \"1s\"", "lease"),
            ("slots = \"many\"", "slots"),
            ("[tls]\ncert = \"a.pem\"", "tls: cert and key go together"),
            ("[tls]\nclient_ca = \"a.pem\"", "tls.client_ca"),
            ("[server]\ninsecure = \"yes\"", "insecure"),
            ("slots = 70000", "slots"),
            ("[store]\ndurability = \"none\"", "durability"),
            ("[store]\nshards = 4096", "shards"),
            ("[leases]\nattempt = \"1ms\"", "leases"),
            ("[leases]\nattempt = 15", "attempt"),
            ("[clock]\nlook = \"1ms\"", "clock.look"),
            ("[egress]\nallow = \"private\"", "allow"),
            ("[egress]\nallow = [\"http://wiki/\"]", "egress.allow: `http://wiki/` is no place"),
            ("[egress]\ndeny = []", "deny"),
            ("[server]\nconnections = 0", "connections"),
            ("[server]\nrequest_time = \"1ms\"", "request_time"),
            ("[server]\nhost = \"a\"", "host"),
            ("[resp]\nconnections = 0", "resp.connections"),
            ("[resp]\nidle_time = \"1ms\"", "resp.idle_time"),
            ("[resp]\nport = 7711", "port"),
            ("[resp]\nopen = true\npassword_file = \"p\"", "resp.open"),
        ] {
            let error = read(file, Said::default()).unwrap_err();
            assert!(error.contains(named), "{file}: {error}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_what_may_have_been_meant() {
        for (file, told) in [
            ("slot = 4", "line 1: slot: unknown field; did you mean `slots`?"),
            (
                "slots = 4\n\n[store]\nfsync = true",
                "line 4: store.fsync: unknown field; known are url, durability, shards",
            ),
            (
                "[leases]\nattempt = 15",
                "line 2: leases.attempt: expected a duration like 30s or 1h30m, found the number 15",
            ),
        ] {
            assert_eq!(read(file, Said::default()).unwrap_err(), told);
        }
        assert!(read("slots 4", Said::default()).unwrap_err().starts_with("line 1: "));
    }
}
