//! What a server needs to keep jobs that nobody takes: its memory, as it says itself, while they are added.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;

use crate::Options;
use crate::client::{Client, Reply};
use crate::dialect::{Dialect, jobs as ids_of};
use crate::throughput::now;

/// ADDJOBs that are sent before their answers are read: it is not the speed that is measured.
const PIPELINE: u64 = 1000;
/// How often the server is asked for its memory.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const MIB: f64 = 1024.0 * 1024.0;

#[derive(Debug, Serialize)]
pub(crate) struct Filled {
    jobs: u64,
    jobs_per_second: f64,
    memory_before_mib: f64,
    memory_most_mib: f64,
    memory_after_mib: f64,
}

pub(crate) fn measure(options: &Options, jobs: u64) -> Result<Filled> {
    let connect = || Client::connect(&options.address, options.password.as_deref());
    let mut looks = connect()?;
    let before = memory(&mut looks)?;
    let (connections, queues) = (u64::from(options.connections.max(1)), options.queues.max(1));
    let begun = now();
    let mut threads = Vec::new();
    for index in 0..options.connections.max(1) {
        let (mut client, body) = (connect()?, vec![b'x'; options.body]);
        let queue = format!("fill-{}", index % queues);
        let share = jobs / connections + u64::from(u64::from(index) < jobs % connections);
        threads.push(thread::spawn(move || add(&mut client, queue.as_bytes(), &body, share)));
    }
    let mut most = before;
    while threads.iter().any(|thread| !thread.is_finished()) {
        thread::sleep(LOOK_EVERY);
        most = most.max(memory(&mut looks)?);
    }
    for thread in threads {
        thread.join().map_err(|_| anyhow!("a connection's thread panicked"))??;
    }
    let jobs_per_second = jobs as f64 / begun.elapsed().as_secs_f64();
    // They are really there: the first is at hand.
    if ids_of(looks.ask(&[b"QPEEK", b"fill-0", b"1"])?)?.is_empty() {
        bail!("the queue `fill-0` is empty after {jobs} jobs were added");
    }
    let after = memory(&mut looks)?;
    Ok(Filled {
        jobs,
        jobs_per_second,
        memory_before_mib: before,
        memory_most_mib: most.max(after),
        memory_after_mib: after,
    })
}

fn add(client: &mut Client, queue: &[u8], body: &[u8], share: u64) -> Result<()> {
    let mut left = share;
    while left > 0 {
        let some = left.min(PIPELINE);
        (0..some).for_each(|_| Dialect::Disque.add(client, queue, body));
        client.send()?;
        for _ in 0..some {
            client.hear()?;
        }
        left -= some;
    }
    Ok(())
}

/// MiB that the server's process holds.
fn memory(client: &mut Client) -> Result<f64> {
    let Reply::Text(text) = client.ask(&[b"INFO", b"memory"])? else {
        bail!("INFO is not answered with text")
    };
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix("used_memory_rss:"));
    let bytes: f64 = line.context("INFO does not say used_memory_rss")?.trim().parse()?;
    Ok(bytes / MIB)
}

impl Filled {
    pub(crate) fn show(&self) {
        println!("{} jobs that stay", self.jobs);
        println!("add                  {:>10.0} jobs/s", self.jobs_per_second);
        println!("memory before        {:>10.0} MiB", self.memory_before_mib);
        println!("memory at most       {:>10.0} MiB", self.memory_most_mib);
        println!("memory after         {:>10.0} MiB", self.memory_after_mib);
    }
}
