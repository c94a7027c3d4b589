//! Only a guardian: for tests, and for programs that embed a worker and cannot run as a guardian themselves.

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual_worker::guardian::main()
}
