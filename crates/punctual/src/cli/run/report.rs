//! `punctual run report`: the progress of the attempt that this command is called from.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use clap::Args;
use punctual_wire::rest::ProgressLine;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::cli::failure::{Exit, Failure};

/// Set by the worker: the file that reports are written to.
const REPORT: &str = "PUNCTUAL_REPORT";

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// How much is done, 0 to 100
    #[arg(long)]
    percent: Option<u8>,
    /// What people see beside the run, at most 256 bytes
    #[arg(long)]
    message: Option<String>,
    /// Where the next attempt continues: JSON, or @FILE with JSON; at most 64 KiB
    #[arg(long, value_name = "JSON")]
    checkpoint: Option<String>,
    /// Ask to be stopped and continued on another worker
    #[arg(long)]
    rebalance: bool,
    /// With --rebalance: changes of the run's parameters, a JSON object; null removes a parameter
    #[arg(long, value_name = "JSON", requires = "rebalance")]
    params: Option<String>,
}

impl Report {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let file = std::env::var_os(REPORT).ok_or_else(|| {
            let why = format!("{REPORT} is not set: `run report` works only in a task that a worker started");
            Failure::new(Exit::Usage, why)
        })?;
        let refused = |why: String| Failure::new(Exit::Usage, why);
        let json = |flag: &'static str, text: Option<String>| text.map(|text| read(flag, &text)).transpose();
        let line = ProgressLine {
            percent: self.percent,
            message: self.message,
            checkpoint: json("--checkpoint", self.checkpoint).map_err(refused)?,
            seq: None,
            rebalance: self.rebalance,
            params: json("--params", self.params).map_err(refused)?,
        };
        line.clone().into_core().map_err(|error| refused(format!("--{error}")))?;
        let json = serde_json::to_string(&line).map_err(|error| Failure::new(Exit::Failed, error))?;
        write(&file, &format!("{json}\n"))
    }
}

fn read(flag: &str, text: &str) -> Result<Value, String> {
    let text = match text.strip_prefix('@') {
        Some(file) => fs::read_to_string(file).map_err(|error| format!("{flag}: {file}: {error}"))?,
        None => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| format!("{flag}: must be JSON: {error}"))
}

fn write(file: &OsString, line: &str) -> Result<(), Failure> {
    // Without a reader this fails at once, where opening it as usual would wait for ever.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let probe = OpenOptions::new().write(true).custom_flags(nonblocking).open(file);
    let _probe = probe.map_err(|error| {
        Failure::new(Exit::Failed, format!("{}: the worker does not read reports: {error}", file.display()))
    })?;
    let mut pipe = OpenOptions::new().write(true).open(file).map_err(Failure::io)?;
    pipe.write_all(line.as_bytes()).map_err(Failure::io)
}
