//! `punctual backup` and `punctual restore`: copies an SQLite store while a node uses it, and restores it elsewhere.
//!
//! Both work on folders without a server, so they also work when no server can start.

use std::path::{Path, PathBuf};

use clap::Args;
use punctual_store::sqlite::{self, Copied};

use super::failure::{Exit, Failure};
use super::output::print;
use crate::settings::{Overrides, Settings, Store};
use crate::wiring;

/// Which store is meant, as `dev` and `server` are told.
#[derive(Debug, Args)]
struct Place {
    /// Where the store is: sqlite:DIR [default: sqlite, in the data folder]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_STORE", hide_env_values = true)]
    store: Option<String>,
    /// The data folder of the node [default: ./punctual-data]
    #[arg(long, value_name = "DIR", env = "PUNCTUAL_DATA")]
    data: Option<PathBuf>,
    /// The settings file of the node
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual backup /backup/monday                         copy ./punctual-data of a running or stopped node
  punctual backup --data /var/lib/punctual /backup/monday

The copy is checked before it gets its name. For PostgreSQL and MariaDB use the tools of the database; the error names them.")]
pub(crate) struct Backup {
    #[command(flatten)]
    place: Place,
    /// The folder to copy into; it is created, or must be empty
    to: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual restore /backup/monday --data /var/lib/punctual
  punctual restore /backup/monday                        into ./punctual-data

The node of the lost store must not run any more. Each job's `misfire` policy decides about fires missed since the backup.")]
pub(crate) struct Restore {
    /// A folder that `punctual backup` made
    from: PathBuf,
    #[command(flatten)]
    place: Place,
}

impl Backup {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let (from, to) = (self.place.folder()?, self.to);
        let told = (from.clone(), to.clone());
        let copied = blocking(move || sqlite::backup(&from, &to)).await?;
        tell("backed up", &told.0, &told.1, copied)
    }
}

impl Restore {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let (from, to) = (self.from, self.place.folder()?);
        let told = (from.clone(), to.clone());
        let copied = blocking(move || sqlite::restore(&from, &to, wiring::now())).await?;
        tell("restored", &told.0, &told.1, copied)
    }
}

impl Place {
    fn folder(self) -> Result<PathBuf, Failure> {
        let overrides = Overrides {
            data: self.data,
            store: Store { url: self.store, ..Store::default() },
            ..Overrides::default()
        };
        let usage = |error: &dyn std::fmt::Display| Failure::new(Exit::Usage, error);
        let settings = Settings::read(self.config.as_deref(), overrides).map_err(|error| usage(&error))?;
        punctual_store::folder_of(&settings.store, &settings.data).map_err(|error| usage(&error))
    }
}

/// Runs on a blocking thread, because copying a large store takes long.
async fn blocking(
    work: impl FnOnce() -> punctual_store::Result<Copied> + Send + 'static,
) -> Result<Copied, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::Failed, error);
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| failed(&error))?;
    done.map_err(|error| failed(&error))
}

fn tell(what: &str, from: &Path, to: &Path, copied: Copied) -> Result<(), Failure> {
    let Copied { jobs, bytes } = copied;
    let noun = if jobs == 1 { "job" } else { "jobs" };
    print(&format!("{what} {} to {}: {jobs} {noun}, {bytes} bytes, checked", from.display(), to.display()))
}
