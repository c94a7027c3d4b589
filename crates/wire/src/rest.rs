//! The objects of REST: what goes in, what comes out, and what is said when something is wrong.
//!
//! Every object can be written and read: the server writes them, the client, the CLI and `verify` read them back.

mod dead_letter;
mod history;
mod job;
mod node;
mod page;
mod problem;
mod run;
mod submit;

pub use dead_letter::DeadLetter;
pub use history::{Line, Skip, Stats};
pub use job::{Cursor, Fire, Job, JobState, MADE_HEADER, Made};
pub use node::{Node, Worker};
pub use page::Page;
pub use problem::{Code, Problem};
pub use run::{Event, Run, State, Trigger, statuses};
pub use submit::{Again, Start, Started, Submit, key};
