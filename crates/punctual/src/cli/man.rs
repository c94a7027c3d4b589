//! `punctual man`: manual pages, one per command.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};

use super::failure::{Exit, Failure};
use super::output::print;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual man | man -l -                          read the first one
  punctual man --dir /usr/local/share/man/man1     write them all")]
pub(crate) struct Man {
    /// The folder to write all pages into; it is created if needed
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self, command: Command) -> Result<(), Failure> {
        let Some(dir) = self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page).map_err(Failure::io)?;
            return print(&String::from_utf8_lossy(&page));
        };
        let unwritable = |error| Failure::new(Exit::Failed, format!("{}: {error}", dir.display()));
        fs::create_dir_all(&dir).map_err(unwritable)?;
        clap_mangen::generate_to(command, &dir).map_err(unwritable)?;
        print(&format!("manual pages are in {}", dir.display()))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn check_pages(command: &Command, name: &str, dir: &std::path::Path) -> usize {
        let page = fs::read_to_string(dir.join(format!("{name}.1")))
            .unwrap_or_else(|error| panic!("no page for `{name}`: {error}"));
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}");
        let is_shown = |verb: &&Command| verb.get_name() != "help" && !verb.is_hide_set();
        let below = command.get_subcommands().filter(is_shown);
        1 + below.map(|verb| check_pages(verb, &format!("{name}-{}", verb.get_name()), dir)).sum::<usize>()
    }

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let man = Man { dir: Some(dir.path().join("man1")) };
        man.run(Cli::command()).unwrap();
        let pages = check_pages(&Cli::command(), "punctual", &dir.path().join("man1"));
        assert_eq!(fs::read_dir(dir.path().join("man1")).unwrap().count(), pages);
    }
}
