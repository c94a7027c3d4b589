//! Load of this machine.

use punctual_core::attempt::Report;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// Reads CPU and memory usage; each reading costs two small files.
#[derive(Debug)]
pub(crate) struct Gauge(Option<System>);

impl Gauge {
    pub(crate) fn new() -> Gauge {
        let what = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing().with_usage())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        Gauge(System::new_with_specifics(what).ok())
    }

    /// The load since the last reading. `None` means the machine does not provide it.
    pub(crate) fn read(&mut self) -> Option<Report> {
        let system = self.0.as_mut()?;
        system.refresh_cpu_usage();
        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        let (used, total) = (system.used_memory(), system.total_memory().max(1));
        Some(Report::Load {
            cpu_percent: percent(f64::from(system.global_cpu_usage())),
            memory_percent: u8::try_from(used.saturating_mul(100) / total).unwrap_or(100).min(100),
        })
    }
}

fn percent(share: f64) -> u8 {
    (0..100).find(|percent| share < f64::from(*percent) + 0.5).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_uses_some_of_its_memory() {
        let Some(Report::Load { cpu_percent, memory_percent }) = Gauge::new().read() else {
            panic!("a gauge reads the load")
        };
        assert!(cpu_percent <= 100 && (1..=100).contains(&memory_percent), "{cpu_percent} {memory_percent}");
    }
}
