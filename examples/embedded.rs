//! The scheduler inside a program: no server, no port, one folder.
//!
//! `cargo run --example embedded` keeps its jobs and runs in `./punctual-data`; another folder may be named.

use std::time::Duration;

use punctual::{Context, Error, Job, Node, Output, Submit};
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, Deserialize)]
struct Settlement {
    region: String,
}

/// Called for every run: by the schedule, and when it is started by hand.
async fn settle(cx: Context) -> Result<Output, Error> {
    let Settlement { region } = cx.params()?;
    cx.log(format!("settling {region}, attempt {}", cx.attempt())).await;
    for part in 1..=4 {
        if cx.is_cancelled() {
            return Err("stopped half-way".into());
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
        cx.progress(part * 25);
    }
    Ok(format!("settled {region} for {}", cx.due()).into())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "punctual-data".to_owned());
    let node = Node::builder()
        .store(format!("sqlite:{folder}"))
        .function("settle", settle)
        .job(
            Job::new("nightly-settlement")
                .function("settle")
                .cron("0 1 * * *")
                .timezone("Asia/Shanghai")
                .params(json!({ "region": "west" }))
                .set("retry", json!({ "attempts": 5, "delay": "10s" })),
        )
        .start()
        .await?;

    let id =
        node.submit(Submit::function("settle").params(json!({ "region": "east" })).key("east-today")).await?;
    let run = node.finished(id).await?;
    println!("run {id} {}: {}", run.status(), run.output);

    node.stop().await;
    Ok(())
}
