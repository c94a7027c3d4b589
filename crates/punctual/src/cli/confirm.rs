//! Asking before something is lost.

use std::io::{self, BufRead, IsTerminal, Write};

use super::failure::{Exit, Failure};

/// Goes on if someone said yes: on the command line or, at a terminal, now. A script is never asked, and never taken
/// at a word that it did not say.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        let refused = Failure::new(Exit::Usage, format!("{question} Nobody is here to say so"));
        return Err(refused.hint("say --yes if you mean it; nothing was done"));
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
