//! A worker that settles ten million rows in chunks, with a checkpoint after each chunk.
//!
//! Start it for a server, as often as you like: `cargo run --example rows -- NAME http://127.0.0.1:7400`. Then
//! `punctual job apply examples/rows.yaml` and `punctual job run rows --wait`. Kill or drain the worker that has the run:
//! another one continues at the last checkpoint.

use std::time::Duration;

use punctual::{Context, Error, Output, Worker};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Deserialize)]
struct Params {
    rows: u64,
    chunk: u64,
}

/// The checkpoint: what is done, and what came of it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Done {
    rows: u64,
    sum: u64,
}

/// The amount of a row. A real settlement reads it from a table.
fn amount(row: u64) -> u64 {
    row % 97
}

async fn settle_rows(cx: Context) -> Result<Output, Error> {
    let Params { rows, chunk } = cx.params()?;
    let mut done: Done = cx.resumed()?.unwrap_or_default();
    let attempt = format!("run {} attempt {}", cx.run(), cx.attempt());
    println!("{attempt}: starts at {}", done.rows);
    while done.rows < rows {
        if cx.is_cancelled() {
            return Err("it was stopped between two chunks".into());
        }
        let chunk = done.rows..rows.min(done.rows + chunk.max(1));
        println!("{attempt}: settles {} to {}", chunk.start, chunk.end);
        done = Done { rows: chunk.end, sum: done.sum + chunk.map(amount).sum::<u64>() };
        cx.report(u8::try_from(100 * done.rows / rows)?, format!("row {}", done.rows));
        cx.checkpoint(&done).await?; // returns when it is stored
        println!("{attempt}: stored {}", done.rows);
    }
    Ok(json!({ "rows": rows, "sum": done.sum }).into())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("give it a name and the URLs of a server")?;
    // A drained worker hands its run on at once: little is done again.
    let mut builder =
        Worker::builder().name(&name).drain(Duration::ZERO).function("settle-rows", settle_rows);
    for server in arguments {
        builder = builder.server(server);
    }
    if let Ok(token) = std::env::var("PUNCTUAL_TOKEN") {
        builder = builder.token(token);
    }
    let mut worker = builder.start().await?;
    println!("{name} is ready");
    tokio::select! {
        ended = worker.ended() => ended?,
        asked = tokio::signal::ctrl_c() => {
            asked?;
            worker.stop().await?;
        }
    }
    Ok(())
}
