//! The files of the console, built into the binary.
//!
//! `build.rs` lists the files of `web/dist`. This crate holds nothing else and only the binary uses it, so that a newly
//! built console recompiles little. `server::console` serves the files.

/// Path below `web/dist`, contents, and the contents compressed by gzip if the build of the console wrote them.
pub type File = (&'static str, &'static [u8], Option<&'static [u8]>);

/// Every file of the console. Empty means that the console was not built before this binary.
pub const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// A hash of all files. `None` means that the console is not embedded.
pub const HASH: Option<&str> = option_env!("PUNCTUAL_UI");
