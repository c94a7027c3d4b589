//! Punctual, the binary.

mod bench;
mod cli;
mod settings;
mod wiring;

use std::process::ExitCode;

use punctual::clock;
use punctual_worker::guardian;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: there is one of them for every attempt that runs.
    if std::env::args_os().nth(1).is_some_and(|first| first == guardian::ARGUMENT) {
        return guardian::main();
    }
    // Before anyone speaks TLS. An error means that there is one already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    cli::main()
}
