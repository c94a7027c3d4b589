//! How rows are written as bytes and read back.
//!
//! A run is postcard with a leading version: it is written twice and read seldom, so it has to be small and cheap.
//! A definition is JSON: it lives for years and grows fields meanwhile.

use std::sync::Arc;

use postcard::ser_flavors::Flavor;
use punctual_core::job::Definition;
use punctual_core::run::{Run, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// The first byte of a run's body. A change of `core::run::Run` needs a new one, and a reader for the old.
const RUN_VERSION: u8 = 2;
/// Before runs kept what their earlier attempts left behind, which stands last: none of them is one byte more.
const RUN_VERSION_1: u8 = 1;

/// Writes a run over what the buffer held.
pub(super) fn write_run(run: &Run, buffer: &mut Vec<u8>) -> Result<()> {
    buffer.clear();
    buffer.push(RUN_VERSION);
    postcard::serialize_with_flavor(run, Appended(buffer)).map_err(|error| cannot_write(&error))
}

pub(super) fn read_run(body: &[u8]) -> Result<Arc<Run>> {
    match body.split_first() {
        Some((&RUN_VERSION, rest)) => {
            postcard::from_bytes(rest).map(Arc::new).map_err(|error| cannot_read(&error))
        }
        Some((&RUN_VERSION_1, rest)) => {
            let whole = [rest, &[0]].concat();
            postcard::from_bytes(&whole).map(Arc::new).map_err(|error| cannot_read(&error))
        }
        Some((version, _)) => Err(cannot_read(&format!("a run of version {version}"))),
        None => Err(cannot_read(&"a run without a body")),
    }
}

pub(super) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| cannot_write(&error))
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| cannot_read(&error))
}

pub(super) fn definition(text: &str) -> Result<Arc<Definition>> {
    from_json(text).map(Arc::new)
}

/// Part of the file format: these numbers never change.
pub(super) fn status_number(status: Status) -> i64 {
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

pub(super) fn cannot_read(error: &dyn std::fmt::Display) -> Error {
    Error::Unusable(format!("the store holds a row that this version of Punctual cannot read: {error}"))
}

fn cannot_write(error: &dyn std::fmt::Display) -> Error {
    Error::Unusable(format!("a row cannot be written as bytes: {error}"))
}

/// Appends to a buffer that is used again for the next row.
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
    use punctual_core::run::{Origin, Trigger};
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
    fn a_run_of_the_first_version_has_no_earlier_attempts() {
        let mut buffer = Vec::new();
        write_run(&run(), &mut buffer).unwrap();
        assert_eq!(buffer.pop(), Some(0));
        buffer[0] = RUN_VERSION_1;
        assert_eq!(*read_run(&buffer).unwrap(), run());
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
