//! How rows are encoded as bytes: the same in every database.
//!
//! A run is postcard with a leading version byte: it is written twice and seldom read, so it has to be small and cheap.
//! A message is its unmodified body and a head of a few bytes. A definition is JSON: it lives for years and gains
//! fields.

mod message;
mod step;

use std::collections::BTreeSet;
use std::sync::Arc;

use postcard::ser_flavors::Flavor;
use punctual_core::Timestamp;
use punctual_core::alert::Watch;
use punctual_core::change::{Batch, Change, RowKey};
use punctual_core::job::{Definition, Job};
use punctual_core::log::Stream;
use punctual_core::name::Name;
use punctual_core::run::{Run, Status};
use punctual_core::statistics::Period;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) use self::message::{read_message, write_head};
pub(crate) use self::step::{read_step, step_body, step_state_number};
use crate::{Error, Result};

/// The first byte of a run's body. A change of `core::run::Run` needs a new version.
const RUN_VERSION: u8 = 13;

/// Writes a run into the buffer, replacing its contents.
pub(crate) fn write_run(run: &Run, buffer: &mut Vec<u8>) -> Result<()> {
    buffer.clear();
    buffer.push(RUN_VERSION);
    postcard::serialize_with_flavor(run, Appended(buffer)).map_err(|error| cannot_write(&error))
}

pub(crate) fn read_run(body: &[u8]) -> Result<Arc<Run>> {
    match body.split_first() {
        Some((&RUN_VERSION, rest)) => {
            postcard::from_bytes(rest).map(Arc::new).map_err(|error| cannot_read(&error))
        }
        Some((version, _)) => Err(cannot_read(&format!("a run of version {version}"))),
        None => Err(cannot_read(&"a run without a body")),
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| cannot_write(&error))
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| cannot_read(&error))
}

pub(crate) fn definition(text: &str) -> Result<Arc<Definition>> {
    from_json(text).map(Arc::new)
}

/// The definition for the job's own row. `None` means the same batch writes it in a revision row.
pub(crate) fn definition_beside(batch: &Batch, job: &Job) -> Result<Option<String>> {
    match batch.changes.get(&RowKey::Revision(job.id, job.revision)) {
        Some(Change::Insert(_) | Change::Update(_)) => Ok(None),
        Some(Change::Delete) | None => Ok(Some(json(&job.definition)?)),
    }
}

/// The calendar names for a job's row, so that the jobs of a calendar are found without reading every definition.
pub(crate) fn calendar_names(definition: &Definition) -> Result<Option<String>> {
    let names: BTreeSet<&str> = definition.calendars().map(|keeping| keeping.name.as_str()).collect();
    if names.is_empty() { Ok(None) } else { Ok(Some(json(&names)?)) }
}

/// The text to search for in the JSON list of calendar names. A name contains no quotes.
pub(crate) fn quoted(calendar: &Name) -> String {
    format!("\"{calendar}\"")
}

/// Part of the file format: these numbers never change.
pub(crate) fn stream_number(stream: Stream) -> i64 {
    match stream {
        Stream::Out => 1,
        Stream::Err => 2,
        Stream::Note => 3,
    }
}

pub(crate) fn stream(number: i64) -> Result<Stream> {
    match number {
        1 => Ok(Stream::Out),
        2 => Ok(Stream::Err),
        3 => Ok(Stream::Note),
        _ => Err(cannot_read(&format!("a chunk of stream {number}"))),
    }
}

/// Part of the file format: these numbers never change.
pub(crate) fn status_number(status: Status) -> i64 {
    match status {
        Status::Waiting => 0,
        Status::Ready => 1,
        Status::Running => 2,
        Status::Succeeded => 3,
        Status::Failed => 4,
        Status::TimedOut => 5,
        Status::Cancelled => 6,
        Status::Skipped => 7,
    }
}

/// The kind of a row of statistics. Part of the file format: these numbers never change.
pub(crate) fn statistics_kind(period: Period, is_of_job: bool) -> i64 {
    match (period, is_of_job) {
        (Period::Minute, false) => 0,
        (Period::Hour, false) => 1,
        (Period::Hour, true) => 2,
        (Period::Minute, true) => 3,
    }
}

/// Listeners, locks, holds and incidents are JSON: there are few, and people may look at them.
pub(crate) fn write_json(row: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(row).map_err(|error| cannot_write(&error))
}

pub(crate) fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<Arc<T>> {
    serde_json::from_slice(body).map(Arc::new).map_err(|error| cannot_read(&error))
}

/// What a job watches, as its row stores it. The timer of such a row may be that of a check, so the time of the next fire
/// is here.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(crate) watch: Box<Watch>,
    pub(crate) wake_at: Option<Timestamp>,
}

impl Watched {
    pub(crate) fn of(job: &Job) -> Option<Watched> {
        Some(Watched { watch: job.watch.clone()?, wake_at: job.cursor.wake_at })
    }
}

pub(crate) fn cannot_read(error: &dyn std::fmt::Display) -> Error {
    Error::Unusable(format!("the store holds a row that this version of Punctual cannot read: {error}"))
}

pub(crate) fn cannot_write(error: &dyn std::fmt::Display) -> Error {
    Error::Unusable(format!("a row cannot be written as bytes: {error}"))
}

/// Appends to a buffer that is reused for the next row.
struct Appended<'a>(&'a mut Vec<u8>);

impl Flavor for Appended<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::ids::RunId;
    use punctual_core::name::Namespace;
    use punctual_core::run::{Origin, Part, PartOf, Trigger};
    use punctual_core::task::Task;

    use super::*;

    fn run() -> Run {
        let definition = Arc::new(Definition::of(Task::Shell("echo hello".to_owned())));
        let (due, now) =
            (Timestamp::from_millis(1_800_000_000_000), Timestamp::from_millis(1_790_000_000_000));
        Run::new(RunId(1 << 40), Namespace::default(), Origin::AdHoc(definition), Trigger::Submit, due, now)
    }

    #[test]
    fn a_run_reads_back_as_it_was_written() {
        let mut buffer = vec![9; 1000];
        write_run(&run(), &mut buffer).unwrap();
        assert_eq!(*read_run(&buffer).unwrap(), run());
    }

    #[test]
    fn a_part_reads_back_as_it_was_written() {
        let of = PartOf { parent: RunId(7), part: Part { index: 2, total: 1000 }, worker: Some("w".into()) };
        let run = Run { part_of: Some(Box::new(of)), ..run() };
        let mut buffer = Vec::new();
        write_run(&run, &mut buffer).unwrap();
        assert_eq!(*read_run(&buffer).unwrap(), run);
    }

    #[test]
    fn a_body_that_is_cut_or_of_a_later_version_is_refused() {
        let mut buffer = Vec::new();
        write_run(&run(), &mut buffer).unwrap();
        assert!(read_run(&buffer[..buffer.len() - 1]).is_err());
        buffer[0] = 200;
        assert!(read_run(&buffer).unwrap_err().to_string().contains("version 200"));
        assert!(read_run(&[]).is_err());
    }
}
