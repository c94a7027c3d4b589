//! A guardian and nothing else: for tests, and for programs that embed a worker and cannot become one themselves.

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual_worker::guardian::main()
}
