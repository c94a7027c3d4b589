//! The wire formats, JSON, YAML, gRPC and the Redis protocol: the only crate that knows field names.
//!
//! In reading order: errors in a text, a text as a tree whose nodes know their position, the text forms of
//! field values, their JSON Schema, the job file, how it is patched and compared, the calendar file, what the
//! receiver of a task says about its work, the objects of REST, gRPC, and the Redis protocol.
//!
//! **Invariant:** nothing here decides. Text becomes `core`, and `core` becomes text.

pub mod error;
pub mod tree;
pub mod text;
pub mod schema;
pub mod job_file;
pub mod merge_patch;
pub mod diff;
pub mod calendar_file;
pub mod execution;
pub mod rest;
pub mod yaml;
pub mod grpc;
pub mod resp;

pub use error::{Error, Place};
pub use text::Text;
