//! `disque-server [disque.conf] [--name value …]`: translates a Disque configuration into arguments of `punctual`.
//!
//! Without a password it becomes `punctual dev`, which serves this machine only; with a password it becomes
//! `punctual server`. Lines that a store on disk makes unnecessary are ignored; unknown lines get a warning.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::super::failure::{Exit, Failure};
use super::super::output::print;

pub(super) const PORT: u16 = 7711;
const HTTP: &str = "127.0.0.1:7400";
/// The data folder below `dir`.
const DATA: &str = "punctual-data";
/// The file that passes the password to the server.
const PASSWORD_FILE: &str = "disque.password";
/// A longer file is not a configuration.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Lines without effect here: messages are always on disk, durable, and need not fit into memory.
const NEEDLESS: [&str; 14] = [
    "maxmemory",
    "maxmemory-policy",
    "maxmemory-samples",
    "appendonly",
    "appendfsync",
    "appendfilename",
    "no-appendfsync-on-rewrite",
    "auto-aof-rewrite-percentage",
    "auto-aof-rewrite-min-size",
    "aof-rewrite-incremental-fsync",
    "aof-load-truncated",
    "aof-enqueue-jobs-once",
    "tcp-backlog",
    "tcp-keepalive",
];

const HELP: &str = "\
Usage: disque-server [disque.conf] [--port N] [--bind ADDRESS] [--dir DIR] [--requirepass PASSWORD] …

Starts a Punctual node that serves queues on port 7711. Lines of the file: port, bind, dir, requirepass, timeout (seconds
that a client may rest), loglevel, http (where REST listens, as PUNCTUAL_HTTP says it: 127.0.0.1:7400, or a free port if
that is taken); what else it has is passed over.

Examples:
  disque-server
  disque-server disque.conf --port 7712 --dir /srv/second";

#[derive(Debug, Default, PartialEq, Eq)]
struct Config {
    port: Option<u16>,
    bind: Option<IpAddr>,
    dir: Option<PathBuf>,
    password: Option<String>,
    /// Seconds. `None` or 0 means no idle timeout.
    timeout: Option<u32>,
    log_level: Option<String>,
    http: Option<String>,
}

/// The arguments for `punctual`. `None` means that help or version was printed.
pub(super) fn words(arguments: &[String]) -> Result<Option<Vec<String>>, Failure> {
    match arguments.first().map(String::as_str) {
        Some("-h" | "--help") => return print(HELP).map(|()| None),
        Some("-v" | "--version") => {
            return print(concat!("disque-server of punctual ", env!("CARGO_PKG_VERSION"))).map(|()| None);
        }
        _ => {}
    }
    let (mut config, mut warnings) = (Config::default(), Vec::new());
    let has_file = arguments.first().is_some_and(|first| !first.starts_with("--"));
    if has_file {
        let file = Path::new(&arguments[0]);
        config
            .read(&text_of(file)?, &mut warnings)
            .map_err(|why| bad(&format!("{}: {why}", file.display())))?;
    }
    let said = as_lines(&arguments[usize::from(has_file)..]);
    config.read(&said, &mut warnings).map_err(|why| bad(&why))?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    if config.http.is_none() && std::env::var_os("PUNCTUAL_CONFIG").is_none() {
        config.http = rest_place(std::env::var("PUNCTUAL_HTTP").ok());
    }
    config.into_words(keep_password).map(Some)
}

/// Where REST listens if the configuration does not say: the address from the environment, else the default
/// port, else a free port, because a second Disque server also needs its own REST port.
fn rest_place(said: Option<String>) -> Option<String> {
    if said.is_some() || TcpListener::bind(HTTP).is_ok() {
        return said;
    }
    eprintln!("warning: {HTTP} is taken: REST listens on a free port; --http HOST:PORT says where");
    Some("127.0.0.1:0".to_owned())
}

fn text_of(file: &Path) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| bad(&format!("{}: {error}", file.display()));
    if fs::metadata(file).map_err(cannot)?.len() > FILE_BYTES_MAX {
        return Err(bad(&format!("{}: this is too long to be a configuration", file.display())));
    }
    fs::read_to_string(file).map_err(cannot)
}

/// Turns `--port 7712 --bind 127.0.0.1` into two lines of a file.
fn as_lines(arguments: &[String]) -> String {
    let mut lines = String::new();
    for word in arguments {
        match word.strip_prefix("--") {
            Some(name) => lines += &format!("\n{name}"),
            None => lines += &format!(" \"{}\"", word.replace('"', "")),
        }
    }
    lines
}

impl Config {
    fn read(&mut self, text: &str, warnings: &mut Vec<String>) -> Result<(), String> {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, values) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let values: Vec<&str> = values.split_whitespace().map(|value| value.trim_matches('"')).collect();
            let about = |why: &str| format!("line {}: `{name}` {why}", number + 1);
            let value = values.first().copied().filter(|value| !value.is_empty());
            let needed = || value.ok_or_else(|| about("needs a value"));
            match name.to_ascii_lowercase().as_str() {
                "port" => self.port = Some(needed()?.parse().map_err(|_| about("is no port"))?),
                "bind" => {
                    let address = needed()?.trim_start_matches('-');
                    self.bind = Some(address.parse().map_err(|_| about("needs an IP address"))?);
                    if values.len() > 1 {
                        warnings.push(about("has several addresses: only the first one is listened on"));
                    }
                }
                "dir" => self.dir = Some(needed()?.into()),
                "requirepass" => self.password = value.map(str::to_owned),
                "timeout" => {
                    self.timeout = Some(needed()?.parse().map_err(|_| about("is no number of seconds"))?);
                }
                "loglevel" => self.log_level = Some(level(needed()?).to_owned()),
                "http" | "punctual-http" => self.http = Some(needed()?.to_owned()),
                name if NEEDLESS.contains(&name) => {}
                _ => warnings.push(about("is not known here and is passed over")),
            }
        }
        Ok(())
    }

    /// `keep` writes the password to a file that only the server reads.
    fn into_words(
        self,
        keep: impl FnOnce(&Path, &str) -> Result<PathBuf, Failure>,
    ) -> Result<Vec<String>, Failure> {
        let bind = self.bind.unwrap_or(IpAddr::from([127, 0, 0, 1]));
        if self.password.is_none() && !bind.is_loopback() {
            return Err(bad(&format!(
                "does not listen on {bind} without a password: everyone could come in"
            ))
            .hint("a line `requirepass PASSWORD` sets one; `bind 127.0.0.1` serves this machine only"));
        }
        let data = self.dir.unwrap_or_else(|| PathBuf::from(".")).join(DATA);
        let place = std::net::SocketAddr::new(bind, self.port.unwrap_or(PORT)).to_string();
        let kind = if self.password.is_some() { "server" } else { "dev" };
        let mut words = ["punctual", kind, "--resp", &place].map(str::to_owned).to_vec();
        let mut say = |name: &str, value: String| words.extend([name.to_owned(), value]);
        say("--data", data.display().to_string());
        if let Some(http) = self.http {
            say("--http", http);
        }
        if let Some(seconds) = self.timeout {
            say("--resp-idle-time", format!("{seconds}s"));
        }
        if let Some(level) = self.log_level {
            say("--log", level);
        }
        if let Some(password) = self.password {
            say("--resp-password-file", keep(&data, &password)?.display().to_string());
            if !bind.is_loopback() {
                // As with Disque, only the password protects the connection.
                words.push("--insecure".to_owned());
            }
        }
        Ok(words)
    }
}

fn keep_password(data: &Path, password: &str) -> Result<PathBuf, Failure> {
    fs::create_dir_all(data).map_err(Failure::io)?;
    let file = data.join(PASSWORD_FILE);
    // Create the file again, so that it has the right mode.
    drop(fs::remove_file(&file));
    let options = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
    options.and_then(|mut open| open.write_all(password.as_bytes())).map_err(Failure::io)?;
    Ok(file)
}

fn level(word: &str) -> &'static str {
    match word {
        "debug" | "verbose" => "debug",
        "warning" => "warn",
        _ => "info",
    }
}

fn bad(message: &str) -> Failure {
    Failure::new(Exit::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Config, Vec<String>) {
        let (mut config, mut warnings) = (Config::default(), Vec::new());
        config.read(text, &mut warnings).unwrap();
        (config, warnings)
    }

    fn words_of(text: &str) -> Result<String, Failure> {
        let kept = |data: &Path, _: &str| Ok(data.join("kept"));
        read(text).0.into_words(kept).map(|words| words.join(" "))
    }

    #[test]
    fn lines_of_redis_are_passed_over_with_a_word_each() {
        let (config, warnings) = read(
            "# a comment\n\nport 7712\nbind 127.0.0.1 ::1\nmaxmemory 1gb\nappendonly yes\nsave 900 1\nslaveof a 1\n\
             requirepass \"se cret\"\nrequirepass secret\nhz 10\n",
        );
        assert_eq!((config.port, config.password.as_deref()), (Some(7712), Some("secret")));
        let about: Vec<&str> = warnings.iter().filter_map(|warning| warning.split('`').nth(1)).collect();
        assert_eq!(about, ["bind", "save", "slaveof", "hz"]);
        assert!(warnings[1].starts_with("line 7: "), "{warnings:?}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_line() {
        for (line, named) in [
            ("port x", "port"),
            ("port", "port"),
            ("bind here", "bind"),
            ("dir", "dir"),
            ("timeout 1m", "timeout"),
        ] {
            let why = Config::default().read(&format!("\n{line}"), &mut Vec::new()).unwrap_err();
            assert!(why.starts_with("line 2: ") && why.contains(named), "{why}");
        }
    }

    #[test]
    fn without_a_password_it_serves_this_machine_and_with_one_it_asks_for_it() {
        let plain = words_of("dir /srv").unwrap();
        assert_eq!(plain, "punctual dev --resp 127.0.0.1:7711 --data /srv/punctual-data");
        assert!(words_of("http 127.0.0.1:7401").unwrap().ends_with(" --http 127.0.0.1:7401"));
        assert!(words_of("timeout 300").unwrap().ends_with(" --resp-idle-time 300s"));
        assert!(words_of("bind 0.0.0.0").is_err());
        let guarded = words_of("bind 0.0.0.0\nrequirepass x\ndir /srv\nloglevel warning").unwrap();
        assert!(guarded.starts_with("punctual server --resp 0.0.0.0:7711 "), "{guarded}");
        assert!(guarded.contains(" --log warn "), "{guarded}");
        assert!(guarded.ends_with(" --resp-password-file /srv/punctual-data/kept --insecure"), "{guarded}");
        assert!(!words_of("requirepass x").unwrap().contains("--insecure"));
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let said: Vec<String> = ["--port", "7713", "--bind", "::1"].map(str::to_owned).to_vec();
        let (config, warnings) = read(&format!("port 1\n{}", as_lines(&said)));
        assert_eq!((config.port, config.bind), (Some(7713), "::1".parse().ok()));
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn the_password_is_kept_where_only_its_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        keep_password(&data, "secret").unwrap();
        let file = keep_password(&data, "other").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&file).unwrap(), "other");
    }
}
