//! A text for the shell: a process whose program is `/bin/sh`.
//!
//! The text is the job's own. Parameters reach it as values, in the environment and on standard input, and are
//! never spliced into it.

use std::collections::BTreeMap;

use punctual_core::task::Process;

use super::{Attempt, Ending, Host, process};

pub(super) async fn execute(text: &str, attempt: Attempt, host: &Host) -> Ending {
    let command = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
    process::execute(&Process { command, env: BTreeMap::new(), dir: None }, attempt, host).await
}
