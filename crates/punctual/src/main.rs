//! Punctual, the binary.

mod bench;
mod cli;

use std::process::ExitCode;

use punctual::{settings, wiring};
use punctual_worker::guardian;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First of all, because every running attempt starts one guardian.
    if std::env::args_os().nth(1).is_some_and(|first| first == guardian::ARGUMENT) {
        return guardian::main();
    }
    // Before any TLS. An error means that a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    cli::main()
}
