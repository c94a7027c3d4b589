//! Several instances of one program on one database: each second belongs to one of them.
//!
//! `cargo run --example embedded_cluster -- postgres://user@host/db NAME SECONDS`, in as many terminals as you like. Stop any of
//! them: the others go on.

use std::time::Duration;

use punctual::{Context, Error, Job, Node};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let usage = "give it the address of a database, a name and how many seconds to run";
    let (store, name) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
    let seconds: u64 = arguments.next().ok_or(usage)?.parse()?;

    let who = name.clone();
    let tick = move |cx: Context| {
        let who = who.clone();
        async move {
            println!("{who} ticks for {}", cx.due());
            Ok(().into())
        }
    };
    let node = Node::builder()
        .store(store)
        .name(name)
        .function("tick", tick)
        .job(Job::new("tick").function("tick").every(Duration::from_secs(1)))
        .start()
        .await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    node.stop().await;
    Ok(())
}
