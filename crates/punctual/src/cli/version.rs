//! `punctual version`: the version, and what is built into the binary.

use clap::Args;

use super::failure::Failure;
use super::output::print;

#[derive(Debug, Args)]
pub(super) struct Version {
    /// Also print whether the console is embedded
    #[arg(long)]
    verbose: bool,
}

impl Version {
    pub(super) fn run(&self) -> Result<(), Failure> {
        print(concat!("punctual ", env!("CARGO_PKG_VERSION")))?;
        match punctual_console::HASH {
            _ if !self.verbose => Ok(()),
            Some(hash) => print(&format!("ui: embedded ({hash})")),
            None => print("ui: not embedded"),
        }
    }
}
