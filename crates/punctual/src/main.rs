//! Punctual, the binary.

mod bench;
mod cli;
mod settings;
mod wiring;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
