//! `punctual server`: a node for a cluster or for clients on other machines, secure from its first start.
//!
//! It requires tokens, makes the first ones itself, and listens beyond this machine only with TLS or
//! `--insecure`. It has the roles `schedule` and `serve`; attempts run on workers, or here with `--slots`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use punctual_node::driver::LoadLimit;
use punctual_server::grpc::peer::Trusted;
use punctual_server::{Bootstrap, Gate, Secret, Tls, begin};
use punctual_store::{Opened, sessions};
use punctual_wire::text::Span;
use tracing::{info, warn};

use super::failure::{Exit, Failure};
use super::output::Colour;
use super::secret_file;
use super::serving::{Queues, address, console, listen, log_to_stderr, own_data_folder, resolve, serve};
use super::time::duration;
use crate::settings::{self, Durability, Leases, Log, Overrides, Settings, Store};
use crate::wiring::{self, Access, Parts};
use punctual::clock::SystemClock;
use punctual::cluster::{Joining, session};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual server --store sqlite:/var/lib/punctual
  punctual server --store postgres://punctual@db/punctual        one node of a cluster
  punctual server --http 0.0.0.0:7400 --tls-cert cert.pem --tls-key key.pem
  punctual server --bootstrap-token-file /run/secrets/punctual   for scripts: no token is printed

The first start makes an admin token and a worker token, and prints them once. SIGTERM or Ctrl-C stops the node.")]
pub(crate) struct Server {
    /// Where the store is: sqlite:DIR, postgres://… or mysql://… [default: sqlite, in the data folder]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_STORE", hide_env_values = true)]
    store: Option<String>,
    /// The folder of this node [default: that of the store, else ./punctual-data]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// Where REST listens; port 0 picks a free one [default: 127.0.0.1:7400]
    #[arg(long, value_name = "HOST:PORT", env = "PUNCTUAL_HTTP", value_parser = address)]
    http: Option<String>,
    /// Where the Redis-protocol endpoint (queues) listens, for example 127.0.0.1:7711 [default: off]
    #[arg(long, value_name = "HOST:PORT", env = "PUNCTUAL_RESP", value_parser = address)]
    resp: Option<String>,
    /// A file of mode 0600 with the password of that endpoint, for AUTH [default: AUTH takes a token]
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_RESP_PASSWORD_FILE")]
    resp_password_file: Option<PathBuf>,
    /// Serve that endpoint without a password; allowed on a loopback address only
    #[arg(long)]
    resp_open: bool,
    /// Close connections to that endpoint that were idle this long; 0s means never [default: 0s]
    #[arg(long, value_name = "SPAN", env = "PUNCTUAL_RESP_IDLE_TIME", value_parser = duration)]
    resp_idle_time: Option<Duration>,
    /// The node's name; it must be unique among running nodes [default: the address that it advertises]
    #[arg(long, value_name = "NAME", env = "PUNCTUAL_NODE_NAME")]
    name: Option<String>,
    /// Where other nodes and workers reach this one [default: where it listens]
    #[arg(long, value_name = "HOST:PORT", env = "PUNCTUAL_ADVERTISE", value_parser = address)]
    advertise: Option<String>,
    /// Where the sessions of the cluster are kept: etcd://host:2379[,…] or redis://host:6379 [default: the store]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_COORDINATION", hide_env_values = true)]
    coordination: Option<String>,
    /// The certificate to show, in PEM with its chain; it is read again when it changes
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// Workers have to show a certificate that this authority signed, beside their token
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_TLS_CLIENT_CA")]
    tls_client_ca: Option<PathBuf>,
    /// Listen beyond this machine without TLS: tokens can then be read on the network
    #[arg(long)]
    insecure: bool,
    /// A file of mode 0600 with the administrator's token; it is set at every start, and no token is printed
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_BOOTSTRAP_TOKEN_FILE")]
    bootstrap_token_file: Option<PathBuf>,
    /// Attempts that may run at once in this process [default: 0, all run on workers]
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
    /// For tests: the share of time from which this node is too busy and gives shards away [default: 80]
    #[arg(long, hide = true, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    busy_percent: Option<u8>,
    /// For tests: how long it has to be that busy [default: 10s]
    #[arg(long, hide = true, value_name = "SPAN", value_parser = duration)]
    busy_for: Option<Duration>,
    /// Serve the console from this folder, such as web/dist [default: the one in the binary]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_UI_DIR")]
    ui_dir: Option<PathBuf>,
    /// What to log: error, warn, info, debug or trace, for all or by module [default: info]
    #[arg(long, value_name = "LEVEL", env = "PUNCTUAL_LOG")]
    log: Option<String>,
    /// A settings file; `punctual config template` prints one
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
}

impl Server {
    /// `authorities` is a PEM file of authorities that signed other nodes' certificates.
    pub(crate) async fn run(self, authorities: Option<PathBuf>, colour: Colour) -> Result<(), Failure> {
        let config = self.config.clone();
        let usual = LoadLimit::default();
        let load_limit = LoadLimit {
            percent: self.busy_percent.unwrap_or(usual.percent),
            span: self.busy_for.unwrap_or(usual.span),
        };
        let (name, advertise, coordination) =
            (self.name.clone(), self.advertise.clone(), self.coordination.clone());
        let settings = Settings::read_for_server(config.as_deref(), self.overrides())
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        log_to_stderr(&settings, colour)?;
        // Check everything that can be refused before anything is created.
        let place = safe_place(&settings, &settings.http).await?;
        let queues = match &settings.resp.listen {
            Some(listen) => {
                let place = safe_place(&settings, listen).await?;
                check_open(&settings, place)?;
                Some(Queues::open(&settings, place).await?)
            }
            None => None,
        };
        let tls = settings.tls.clone().map(Tls::open).transpose();
        let tls = tls.map_err(|error| Failure::new(Exit::Usage, error))?;
        let chosen = settings.bootstrap_token_file.as_deref().map(chosen).transpose()?;

        let failed = |error: anyhow::Error| Failure::new(Exit::Failed, error);
        let listener = listen(place).await?;
        let place = listener.local_addr().map_err(Failure::io)?;
        let session = session().map_err(failed)?;
        let opened = wiring::open_store(&settings, session).await.map_err(anyhow::Error::from);
        let Opened { store, sessions } = opened.map_err(failed)?;
        let address = advertise.unwrap_or_else(|| place.to_string());
        let joining = match sessions {
            None if coordination.is_some() => return Err(alone()),
            None => None,
            Some(sessions) => {
                check_reachable(&address)?;
                let sessions = match coordination {
                    Some(url) => sessions::open(&url).map_err(|error| Failure::new(Exit::Usage, error))?,
                    None => sessions,
                };
                // Nodes may share one certificate, or one authority, which is in the certificate chain or
                // named by --ca.
                let trusted = settings.tls.as_ref().map(|files| {
                    Trusted::Files(std::iter::once(files.cert.clone()).chain(authorities).collect())
                });
                Some(Joining { session, sessions, address: Some(address.clone()), trusted, load_limit })
            }
        };
        let _data = own_data_folder(&settings.data)?;
        let made = begin(&*store, chosen.as_ref(), wiring::now()).await;
        tell(&made.map_err(|error| Failure::new(Exit::Failed, error))?);
        let certified_workers = tls.as_ref().is_some_and(Tls::asks_workers);
        let gate = Gate::guarded(Arc::clone(&store) as _, Arc::new(SystemClock::new()), certified_workers);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let name = name.unwrap_or(address);
        let parts = Parts::new(&name, session, store, &settings);
        let parts =
            Parts { joining, access: Some(Access { gate, tls, console: console(&settings) }), ..parts };
        let running = wiring::start(&settings, parts).await.map_err(failed)?;
        let served = serve(&settings, listener, queues, scheme, &running).await;
        running.shut_down().await;
        served
    }

    fn overrides(self) -> Overrides {
        Overrides {
            data: self.data,
            http: self.http,
            slots: self.slots,
            store: Store { url: self.store, durability: self.durability, shards: None },
            leases: Leases { attempt: self.attempt_lease.map(Span), shard: self.shard_lease.map(Span) },
            server: settings::Server {
                insecure: self.insecure.then_some(true),
                bootstrap_token_file: self.bootstrap_token_file,
                ui_dir: self.ui_dir,
                ..settings::Server::default()
            },
            tls: settings::Tls { cert: self.tls_cert, key: self.tls_key, client_ca: self.tls_client_ca },
            resp: settings::RespOverrides {
                listen: self.resp,
                password_file: self.resp_password_file,
                open: self.resp_open.then_some(true),
                idle_time: self.resp_idle_time.map(Span),
                ..settings::RespOverrides::default()
            },
            log: Log { level: self.log },
            ..Overrides::default()
        }
    }
}

/// Resolves the address to listen on, and refuses an insecure one.
async fn safe_place(settings: &Settings, http: &str) -> Result<SocketAddr, Failure> {
    let place = resolve(http).await?;
    let in_the_clear = !place.ip().is_loopback() && settings.tls.is_none();
    if in_the_clear && !settings.insecure {
        let message = format!(
            "does not listen on {http} without TLS: beyond this machine tokens could be read on the way"
        );
        return Err(Failure::new(Exit::Usage, message).hint(
            "--tls-cert and --tls-key give it a certificate; --insecure says that the network is trusted",
        ));
    }
    if in_the_clear {
        warn!(%place, "listening in the clear beyond this machine: everyone who can read the network traffic can read the tokens");
    }
    Ok(place)
}

/// Every client of an open endpoint may use every queue, so it must be on this machine only.
fn check_open(settings: &Settings, place: SocketAddr) -> Result<(), Failure> {
    if !settings.resp.open || place.ip().is_loopback() {
        return Ok(());
    }
    let message = format!("does not serve queues on {place} without a password: everyone could come in");
    Err(Failure::new(Exit::Usage, message).hint(
        "use --resp 127.0.0.1:7711 together with --resp-open, or set a password with --resp-password-file",
    ))
}

fn alone() -> Failure {
    Failure::new(Exit::Usage, "--coordination is for nodes that share a store, and SQLite is for one node")
        .hint("leave it out, or give the nodes a store on PostgreSQL or MariaDB")
}

/// Other nodes cannot dial an unspecified address such as 0.0.0.0.
fn check_reachable(address: &str) -> Result<(), Failure> {
    let is_everywhere = address.parse::<SocketAddr>().is_ok_and(|place| place.ip().is_unspecified());
    if !is_everywhere {
        return Ok(());
    }
    let message = format!("other nodes cannot reach this one at {address}");
    Err(Failure::new(Exit::Usage, message).hint("--advertise HOST:PORT says where they can"))
}

fn chosen(file: &Path) -> Result<Secret, Failure> {
    let text = secret_file::read(file)?;
    Secret::chosen(&text).map_err(|weak| {
        let message = format!("{}: this token is not taken: {weak}", file.display());
        Failure::new(Exit::Usage, message).hint("`openssl rand -hex 32` makes a good one")
    })
}

/// Prints the new tokens once, to stderr and not to the log.
fn tell(made: &Bootstrap) {
    let Bootstrap { admin, worker, made_before } = made;
    if let Some(at) = made_before {
        info!(
            made_at = %at,
            "the tokens of this store were printed once, by the node that made them; look at the output of the node that \
             started then. --bootstrap-token-file puts in another administrator's token"
        );
    }
    if admin.is_none() && worker.is_none() {
        return;
    }
    eprintln!(
        "\n=== First start: these tokens are shown once, here. The store keeps only their hashes. ===\n"
    );
    if let Some(admin) = admin {
        eprintln!("  admin token:   {}", admin.as_str());
        eprintln!("                 for you: put it into PUNCTUAL_TOKEN, or into a file for --token-file\n");
    }
    if let Some(worker) = worker {
        eprintln!("  worker token:  {}", worker.as_str());
        eprintln!("                 for workers to enrol with; it opens nothing else\n");
    }
    eprintln!("  `punctual token add` makes more, `punctual token remove` ends one.\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn settings(http: &str, insecure: bool, tls: bool) -> Settings {
        let tls = |name: &str| tls.then(|| name.into());
        let overrides = Overrides {
            http: Some(http.to_owned()),
            server: settings::Server { insecure: Some(insecure), ..settings::Server::default() },
            tls: settings::Tls { cert: tls("cert.pem"), key: tls("key.pem"), client_ca: None },
            ..Overrides::default()
        };
        Settings::read_for_server(None, overrides).unwrap()
    }

    #[tokio::test]
    async fn beyond_this_machine_it_wants_tls_or_to_be_told() {
        for (resp, may) in
            [("127.0.0.1:0", true), ("[::1]:0", true), ("0.0.0.0:0", false), ("192.0.2.1:1", false)]
        {
            let mut settings = settings(resp, true, false);
            assert!(check_open(&settings, resp.parse().unwrap()).is_ok());
            settings.resp.open = true;
            assert_eq!(check_open(&settings, resp.parse().unwrap()).is_ok(), may, "{resp}");
        }
        for (http, insecure, tls, may) in [
            ("127.0.0.1:0", false, false, true),
            ("[::1]:0", false, false, true),
            ("0.0.0.0:0", false, false, false),
            ("[::]:0", false, false, false),
            ("192.0.2.1:7400", false, false, false),
            ("0.0.0.0:0", true, false, true),
            ("0.0.0.0:0", false, true, true),
        ] {
            let found = safe_place(&settings(http, insecure, tls), http).await;
            assert_eq!(found.is_ok(), may, "{http} insecure={insecure} tls={tls}");
        }
    }
}
