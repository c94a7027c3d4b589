//! Jobs through a queue: every connection adds, gets and acknowledges, until all are done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};

use crate::Options;
use crate::client::Client;
use crate::dialect::Dialect;

struct Counts {
    /// Jobs that may still be added.
    to_add: AtomicU64,
    acked: AtomicU64,
}

/// Jobs a second, from the first ADDJOB to the last answer of an ACKJOB.
pub(crate) fn measure(options: &Options) -> Result<f64> {
    let counts = Arc::new(Counts { to_add: AtomicU64::new(options.jobs), acked: AtomicU64::new(0) });
    let mut clients = Vec::new();
    for index in 0..options.connections {
        let queue = format!("load-{}", index % options.queues.max(1));
        let mut client = Client::connect(&options.address, options.password.as_deref())?;
        options.dialect.prepare(&mut client, queue.as_bytes())?;
        clients.push((queue, client));
    }
    let begun = now();
    let threads: Vec<_> = clients
        .into_iter()
        .map(|(queue, client)| {
            let counts = Arc::clone(&counts);
            let one = One {
                dialect: options.dialect,
                client,
                queue,
                body: vec![b'x'; options.body],
                pipeline: u64::from(options.pipeline.max(1)),
                count: options.count.max(1).to_string(),
                batch: u64::from(options.count.max(1)),
                jobs: options.jobs,
                counts,
            };
            thread::spawn(move || one.run())
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| anyhow!("a connection's thread panicked"))??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let acked = counts.acked.load(Ordering::Relaxed);
    if acked != options.jobs {
        bail!("{acked} jobs were acknowledged of {}: were there others in these queues?", options.jobs);
    }
    Ok(acked as f64 / seconds)
}

struct One {
    dialect: Dialect,
    client: Client,
    queue: String,
    body: Vec<u8>,
    pipeline: u64,
    count: String,
    batch: u64,
    jobs: u64,
    counts: Arc<Counts>,
}

impl One {
    fn run(mut self) -> Result<()> {
        while self.counts.acked.load(Ordering::Relaxed) < self.jobs {
            let mut added = 0;
            while added < self.batch {
                let some = self.claim(self.pipeline.min(self.batch - added));
                if some == 0 {
                    break;
                }
                self.add(some)?;
                added += some;
            }
            self.take()?;
        }
        Ok(())
    }

    /// How many of the jobs that are left this connection adds next.
    fn claim(&self, wanted: u64) -> u64 {
        let take = |left: u64| (left > 0).then(|| left - left.min(wanted));
        let left = self.counts.to_add.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        left.map_or(0, |left| left.min(wanted))
    }

    fn add(&mut self, some: u64) -> Result<()> {
        for _ in 0..some {
            self.dialect.add(&mut self.client, self.queue.as_bytes(), &self.body);
        }
        self.client.send()?;
        for _ in 0..some {
            self.client.hear()?;
        }
        Ok(())
    }

    fn take(&mut self) -> Result<()> {
        let queue = self.queue.as_bytes();
        let ids = self.dialect.take(&mut self.client, queue, self.count.as_bytes())?;
        if !ids.is_empty() {
            let acked = self.dialect.ack(&mut self.client, queue, &ids)?;
            self.counts.acked.fetch_add(acked, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "it measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
