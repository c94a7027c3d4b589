//! The store: few methods, each with a promise.
//!
//! Leaders use `shards`; endpoints read jobs, runs and dead letters through `reads`.
//!
//! `memory` defines the meaning in plain Rust; every other backend has to pass the same tests (`conformance`). A
//! backend may be slower, never different. The store does not depend on the engine: both use `core::change`.

pub mod error;
mod address;
pub mod membership;
mod shards;
mod reads;
mod calendars;
mod descriptors;
mod logs;
mod upkeep;
pub mod mail;
pub mod token;
pub mod sessions;
mod refusal;
mod listing;
mod page_bytes;
mod retention;
mod codec;
mod definitions;
mod live_key;
mod ended_key;
mod circular_walk;
mod row_counts;
mod migrations;
mod sql;
pub mod memory;
pub mod sqlite;
pub mod postgres;
pub mod mysql;
mod open;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

pub use address::{Durability, ServerOptions};
pub use calendars::{Calendars, PutCalendar, Swap};
pub use descriptors::{Descriptors, PutDescriptor};
pub use error::Error;
pub use logs::Logs;
pub use mail::{Mail, Mailboxes};
pub use membership::{Claim, Lease, Leases, Member, Session, Sessions};
pub use open::{Opened, folder, folder_of, open};
pub use reads::{
    CalendarFilter, Children, End, IncidentFilter, JobFilter, LetterFilter, NAMESPACE_COUNT_MAX,
    NamespaceCounts, Reads, RunFilter, StatisticsFilter, StatisticsOf, Stats, StatusCount,
};
pub use shards::Shards;
pub use token::Tokens;
pub use upkeep::{PrunePolicy, Upkeep};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A whole store: what a backend implements, in a file a part.
pub trait Store: Shards + Reads + Calendars + Descriptors + Mailboxes + Tokens + Logs + Upkeep {}

impl<T: Shards + Reads + Calendars + Descriptors + Mailboxes + Tokens + Logs + Upkeep> Store for T {}
