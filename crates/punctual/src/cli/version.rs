//! `punctual version`: the version, and what is built into the binary.

use clap::Args;
use punctual_failpoint::{IS_BUILT_IN, Point};

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

/// Lists the failpoints; a release build has none.
pub(super) fn failpoints() -> Result<(), Failure> {
    let points = if IS_BUILT_IN { Point::ALL } else { &[] };
    points.iter().try_for_each(|point| print(point.name()))
}
