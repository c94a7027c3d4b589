//! Asks before data is lost.

use std::io::{self, BufRead, IsTerminal, Write};

use super::failure::{Exit, Failure};

/// Continues after `--yes` or a yes at a terminal. A script is not asked, and without `--yes` it is refused.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let refused =
            Failure::new(Exit::Usage, format!("{question} stdin is not a terminal, so nobody can answer"));
        return Err(refused.hint("--yes answers yes; nothing was done"));
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush().map_err(Failure::io)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::io)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Failed, "nothing was done")),
    }
}
