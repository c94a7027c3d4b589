//! Makes the gRPC types from `proto/`, without protoc.

use std::path::Path;

const FILES: [&str; 4] = [
    "punctual/v1/attempts.proto",
    "punctual/v1/executor.proto",
    "punctual/v1/peer.proto",
    "punctual/v1/worker.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new("../../proto");
    for file in FILES {
        println!("cargo::rerun-if-changed={}", folder.join(file).display());
    }
    let set = protox::compile(FILES, [folder])?;
    tonic_prost_build::configure().compile_fds(set)?;
    Ok(())
}
