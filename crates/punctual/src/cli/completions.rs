//! `punctual completions`: completion scripts for shells.

use clap::{Args, Command};
use clap_complete::Shell;

use super::failure::Failure;
use super::output::print;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual completions bash > /etc/bash_completion.d/punctual
  punctual completions zsh > \"${fpath[1]}/_punctual\"
  punctual completions fish > ~/.config/fish/completions/punctual.fish
  source <(punctual completions bash)          only in this shell")]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, mut command: Command) -> Result<(), Failure> {
        print(&script(self.shell, &mut command))
    }
}

fn script(shell: Shell, command: &mut Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "punctual", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use clap::{CommandFactory, ValueEnum};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_shell_gets_a_script_that_knows_our_words() {
        for shell in Shell::value_variants() {
            let script = script(*shell, &mut Cli::command());
            for word in ["doctor", "apply", "submit", "--namespace"] {
                assert!(script.contains(word.trim_start_matches('-')), "{shell}: no `{word}`");
            }
        }
    }

    #[test]
    fn bash_can_read_its_script() {
        let mut bash =
            Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().expect("bash is installed");
        let script = script(Shell::Bash, &mut Cli::command());
        bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(bash.wait().unwrap().success());
    }
}
