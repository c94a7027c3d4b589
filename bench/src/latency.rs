//! How soon a consumer that waits has a job: from the moment ADDJOB is sent to the moment GETJOB is answered.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use serde::Serialize;

use crate::Options;
use crate::client::Client;
use crate::throughput::now;

#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

const QUEUE: &[u8] = b"load-timed";

pub(crate) fn measure(options: &Options, timed: u32, rest: Duration) -> Result<Latency> {
    let mut adds = Client::connect(&options.address, options.password.as_deref())?;
    let mut gets = Client::connect(&options.address, options.password.as_deref())?;
    let dialect = options.dialect;
    dialect.prepare(&mut adds, QUEUE)?;
    let (said, heard) = mpsc::sync_channel::<Instant>(1);
    let consumer = thread::spawn(move || -> Result<()> {
        for _ in 0..timed {
            let ids = dialect.wait(&mut gets, QUEUE)?;
            let at = now();
            if ids.len() != 1 {
                bail!("the waiting consumer got {} jobs instead of one", ids.len());
            }
            dialect.ack(&mut gets, QUEUE, &ids)?;
            if said.send(at).is_err() {
                break;
            }
        }
        Ok(())
    });
    let body = vec![b'x'; options.body];
    let mut spans = Vec::new();
    for _ in 0..timed {
        // The consumer is to wait already: it acknowledges and asks again meanwhile.
        thread::sleep(rest);
        let sent = now();
        dialect.add(&mut adds, QUEUE, &body);
        adds.send()?;
        adds.hear()?;
        match heard.recv_timeout(Duration::from_secs(10)) {
            Ok(at) => spans.push(at.duration_since(sent)),
            Err(_) => break,
        }
    }
    drop(heard);
    consumer.join().map_err(|_| anyhow!("the consumer's thread panicked"))??;
    spans.sort_unstable();
    let at = |part: f64| {
        let index = (spans.len().saturating_sub(1)) as f64 * part;
        spans.get(index as usize).map_or(f64::NAN, |span| span.as_secs_f64() * 1e3)
    };
    Ok(Latency { p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1.0) })
}
