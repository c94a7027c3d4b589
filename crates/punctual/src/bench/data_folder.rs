//! Where a benchmark keeps its data, and the node that it measures.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use punctual_node::Handle;

use crate::cli::dev;
use crate::settings::{Overrides, Settings};
use crate::wiring::Running;

/// Concurrent submits: enough to fill every commit.
pub(super) const UNDER_WAY: usize = 4096;

#[derive(Debug, Args)]
pub(super) struct DataFolder {
    /// A folder on the disk to measure; it must not exist, and is removed afterwards [default: ./punctual-bench]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// A folder that is removed with the benchmark.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl DataFolder {
    pub(super) fn folder(&self, name: &str) -> anyhow::Result<Folder> {
        let base = self.data.clone().unwrap_or_else(|| PathBuf::from("punctual-bench"));
        let path = base.with_file_name(format!(
            "{}-{name}-{}",
            base.file_name().unwrap_or_default().to_string_lossy(),
            std::process::id()
        ));
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Folder {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A ready node with all roles. With 0 slots it does not wait for a worker.
pub(super) async fn node(folder: &Folder, slots: usize) -> anyhow::Result<(Running, Handle)> {
    node_with(folder, slots, |_| {}).await
}

/// The same with other settings.
pub(super) async fn node_with(
    folder: &Folder,
    slots: usize,
    change: impl FnOnce(&mut Settings),
) -> anyhow::Result<(Running, Handle)> {
    let overrides =
        Overrides { data: Some(folder.path().to_owned()), slots: Some(slots), ..Overrides::default() };
    let mut settings = Settings::read(None, overrides).map_err(anyhow::Error::msg)?;
    change(&mut settings);
    let running = dev::start(&settings).await?;
    running.ready().await?;
    let handle = running.handle().clone();
    Ok((running, handle))
}

/// A clock for measurements, not for decisions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures the time that passes")]
    pub(super) fn start() -> Self {
        Stopwatch(Instant::now())
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub(super) fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}
