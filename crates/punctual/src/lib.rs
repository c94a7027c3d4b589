//! Punctual as a library: a scheduler inside a program.
//!
//! A [`Node`] plans, fires and follows jobs in the process that starts it. There is no server to run and no
//! port to open. Its data is in a store: an SQLite folder for one process, PostgreSQL or MariaDB for several.
//! Every instance of a program on the same store is a node of one cluster; all nodes are equal, and each fire
//! happens once.
//! ```
//! use std::time::Duration;
//!
//! use punctual::{Context, Error, Job, Node, Output, Submit};
//!
//! async fn greet(cx: Context) -> Result<Output, Error> {
//!     let params: serde_json::Value = cx.params()?;
//!     cx.log(format!("attempt {} of run {}", cx.attempt(), cx.run())).await;
//!     cx.progress(50);
//!     Ok(format!("hello, {}", params["name"].as_str().unwrap_or("world")).into())
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::builder()
//!     .store("memory:") // or "sqlite:./data", "postgres://user@host/db", "mysql://user@host/db"
//!     .function("greet", greet)
//!     .job(Job::new("greeting").function("greet").every(Duration::from_secs(3600)))
//!     .start()
//!     .await?;
//!
//! let id = node.submit(Submit::function("greet").params(serde_json::json!({ "name": "Ada" }))).await?;
//! let run = node.finished(id).await?;
//! assert_eq!(&*run.output, "hello, Ada");
//!
//! node.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! The modules: [`embed`], the node and its builder; [`worker`], for programs that only run functions for a server; [`testing`], a node whose clock a test moves; [`client`], for programs that talk to a server instead;
//! [`core`] and [`wire`], the types that both use.

/// Runs the examples of the guides as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/embedded.md")]
struct Guide;
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/testing-schedules.md")]
struct TestingGuide;
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/locks.md")]
struct LocksGuide;
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/long-work.md")]
struct LongWorkGuide;

pub mod embed;
pub mod testing;
pub mod worker;

#[doc(hidden)]
pub mod alerts;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod cluster;
#[doc(hidden)]
pub mod settings;
#[doc(hidden)]
pub mod wiring;

pub use embed::{Builder, Job, Node, NodeError, Submit};
pub use punctual_client as client;
pub use punctual_client::{HeldLock, Hold};
pub use punctual_core as core;
pub use punctual_core::ids::RunId;
pub use punctual_core::run::{Run, Status};
pub use punctual_wire as wire;
pub use punctual_worker::function::{Context, Error, Output};
pub use worker::{Worker, WorkerBuilder, WorkerError};
