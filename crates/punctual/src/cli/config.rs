//! `punctual config`: checks and prints settings files.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::failure::{Exit, Failure};
use super::output::print;
use crate::settings::{DEFAULTS, Overrides, Settings};

/// The permission bits that let other users change the settings, and with them the data folder and the access.
const OTHERS_MAY_WRITE: u32 = 0o022;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Check a settings file and change nothing
    #[command(after_help = "Example:\n  punctual config check punctual.toml")]
    Check {
        #[arg(env = "PUNCTUAL_CONFIG")]
        file: PathBuf,
    },
    /// Print the settings file that holds every default, explained: a template
    #[command(after_help = "Example:\n  punctual config template > punctual.toml")]
    Template,
}

impl Verb {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Verb::Check { file } => check(&file),
            Verb::Template => print(DEFAULTS),
        }
    }
}

fn check(file: &Path) -> Result<(), Failure> {
    Settings::read(Some(file), Overrides::default()).map_err(|error| {
        Failure::new(Exit::Refused, error).hint("`punctual config template` explains every setting")
    })?;
    let mode = std::fs::metadata(file).map_err(Failure::io)?.permissions().mode();
    if mode & OTHERS_MAY_WRITE != 0 {
        let file = file.display();
        let message = format!("{file}: others may write it (mode {:o})", mode & 0o777);
        return Err(Failure::new(Exit::Refused, message).hint(format!("`chmod go-w {file}`")));
    }
    print(&format!("{} is fine", file.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn a_settings_file_is_checked_by_its_words_and_by_who_may_write_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("punctual.toml");
        for (text, mode, fine) in [
            (DEFAULTS, 0o644, true),
            ("slots = 4\n", 0o600, true),
            ("slot = 4\n", 0o600, false),
            ("slots = 4\n", 0o666, false),
        ] {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(check(&file).is_ok(), fine, "{text} {mode:o}");
        }
    }
}
