//! `punctual doctor`: checks whether everything is in order, and says what to do if not.
//!
//! It checks this machine and, if one answers, the server. Without a server it still says whether one could
//! start. It changes nothing, with one exception: a store that is not in use is opened, which recovers it
//! after a crash, as a start would.

mod folder;
mod machine;
mod server;

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::Session;
use super::failure::{Exit, Failure};
use super::output::{Output, Tone};
use super::serving::address;
use crate::settings::{Durability, Overrides, Settings, Store};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual doctor
  punctual doctor --data /var/lib/punctual
  punctual doctor -o json

The exit code is 1 if a check failed; warnings leave it 0.")]
pub(crate) struct Doctor {
    /// The data folder to check [default: from the settings]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// The settings file that the node is started with
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
    /// Where the node listens [default: from the settings]
    #[arg(long, value_name = "HOST:PORT", env = "PUNCTUAL_HTTP", value_parser = address)]
    http: Option<String>,
    /// The slots of the node [default: from the settings]
    #[arg(long, value_name = "COUNT", env = "PUNCTUAL_SLOTS")]
    slots: Option<usize>,
    /// The durability of the node [default: from the settings]
    #[arg(long, value_enum, env = "PUNCTUAL_DURABILITY")]
    durability: Option<Durability>,
    /// Do not open the store, even if no node uses it
    #[arg(long)]
    no_open: bool,
}

/// The result of one check.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    what: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Check {
    fn ok(what: &'static str, found: impl Into<String>) -> Check {
        Check { what, verdict: Verdict::Ok, found: found.into(), hint: None }
    }

    fn warn(what: &'static str, found: impl Into<String>, hint: impl Into<String>) -> Check {
        Check { what, verdict: Verdict::Warn, found: found.into(), hint: Some(hint.into()) }
    }

    fn fail(what: &'static str, found: impl Into<String>, hint: impl Into<String>) -> Check {
        Check { what, verdict: Verdict::Fail, found: found.into(), hint: Some(hint.into()) }
    }
}

impl Doctor {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let checks = self.checks(session).await?;
        session.output.show(&checks, |output| report(output, &checks))?;
        match checks.iter().filter(|check| check.verdict == Verdict::Fail).count() {
            0 => Ok(()),
            1 => Err(Failure::new(Exit::Failed, "one check failed")),
            failed => Err(Failure::new(Exit::Failed, format!("{failed} checks failed"))),
        }
    }

    async fn checks(self, session: &Session) -> Result<Vec<Check>, Failure> {
        let watch = machine::ClockWatch::start();
        let (settings, mut checks) = self.settings()?;
        let lock = folder::Lock::look(&settings.data);
        checks.extend(folder::look(&settings, &lock));
        checks.push(folder::store(&settings, &lock, !self.no_open).await);
        checks.extend(machine::look(&settings));
        checks.extend(machine::ports(&settings, &lock).await);
        checks.extend(server::look(session, &lock).await);
        checks.push(machine::time_keeping().await);
        checks.push(watch.check());
        Ok(checks)
    }

    /// Invalid settings are a finding; the other checks then use the defaults.
    fn settings(&self) -> Result<(Settings, Vec<Check>), Failure> {
        let overrides = || Overrides {
            data: self.data.clone(),
            http: self.http.clone(),
            slots: self.slots,
            store: Store { durability: self.durability, ..Store::default() },
            ..Overrides::default()
        };
        let name = |path: &PathBuf| path.display().to_string();
        let from = self.config.as_ref().map_or("the defaults".to_owned(), name);
        match Settings::read(self.config.as_deref(), overrides()) {
            Ok(settings) => Ok((settings, vec![Check::ok("settings", from)])),
            Err(error) => {
                let settings =
                    Settings::read(None, overrides()).map_err(|error| Failure::new(Exit::Usage, error))?;
                let hint = "`punctual config template` explains every setting; the rest is checked with the defaults";
                Ok((settings, vec![Check::fail("settings", error, hint)]))
            }
        }
    }
}

/// One line per check, with its hint below.
fn report(output: Output, checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.what.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for Check { what, verdict, found, hint } in checks {
        let tone = match verdict {
            Verdict::Ok => Tone::Good,
            Verdict::Warn => Tone::Odd,
            Verdict::Fail => Tone::Bad,
        };
        let verdict = output.paint(&format!("{verdict:<4}"), tone);
        lines.push(format!("{verdict}  {what:width$}  {found}"));
        lines.extend(hint.iter().map(|hint| format!("{:6}{:width$}  hint: {hint}", "", "")));
    }
    lines.join("\n")
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        })
    }
}
