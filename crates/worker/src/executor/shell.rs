//! A shell task: a process whose program is `/bin/sh`.
//!
//! The text comes from the job. Parameters are passed as values, in the environment and on standard input, and are
//! never inserted into the text.

use std::collections::BTreeMap;

use punctual_core::task::Process;

use super::{Attempt, Ending, Host, process};

pub(super) async fn execute(text: &str, attempt: Attempt, host: &Host) -> Ending {
    let command = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
    process::execute(&Process { command, env: BTreeMap::new(), dir: None }, attempt, host).await
}
