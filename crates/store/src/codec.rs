//! How rows are written as bytes and read back: the same in every database.
//!
//! A run is postcard with a leading version: it is written twice and read seldom, so it has to be small and cheap.
//! A message is its body as it came, beside a head of a few bytes. A definition is JSON: it lives for years and grows fields meanwhile.

mod message;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postcard::ser_flavors::Flavor;
use punctual_core::change::{Batch, Change, RowKey};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::route::Labels;
use punctual_core::job::{Definition, Job, Keep, Misfire, Overlap, Route, Strategy, Unique};
use punctual_core::log::Stream;
use punctual_core::name::{Name, Namespace};
use punctual_core::retry::Retry;
use punctual_core::run::{Run, Status};
use punctual_core::schedule::Schedule;
use punctual_core::task::{Params, Task};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) use self::message::{read_message, write_head};
use crate::{Error, Result};

/// The first byte of a run's body. A change of `core::run::Run` needs a new one, and a reader for the old.
const RUN_VERSION: u8 = 5;
/// Before entries were signed by their nodes, which stands last: no signature is one byte more.
const RUN_VERSION_4: u8 = 4;
/// Before runs could be split: a route had no `shards`, which stands last in it, and a run no kin, which stands last.
const RUN_VERSION_3: u8 = 3;
/// Before definitions had a route, which stands last in them: it is put there.
const RUN_VERSION_2: u8 = 2;
/// Before runs kept what their earlier attempts left behind, which stands last: none of them is one byte more.
const RUN_VERSION_1: u8 = 1;

/// Writes a run over what the buffer held.
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
        Some((&RUN_VERSION_4, rest)) => {
            let body = [rest, &UNSIGNED].concat();
            postcard::from_bytes(&body).map(Arc::new).map_err(|error| cannot_read(&error))
        }
        Some((&RUN_VERSION_3, rest)) => read_old::<Definition3>(rest, &None::<u32>),
        Some((&RUN_VERSION_2, rest)) => read_old::<Definition2>(rest, &Route::default()),
        Some((&RUN_VERSION_1, rest)) => read_old::<Definition2>(&[rest, &[0]].concat(), &Route::default()),
        Some((version, _)) => Err(cannot_read(&format!("a run of version {version}"))),
        None => Err(cannot_read(&"a run without a body")),
    }
}

/// A run of an earlier version, which has no kin. Only a run without a job carries its definition, an old `D`: where that
/// ends, what definitions have had since is put in.
fn read_old<D: DeserializeOwned>(body: &[u8], since: &impl Serialize) -> Result<Arc<Run>> {
    let read = |body: &[u8]| postcard::from_bytes(body).map(Arc::new).map_err(|error| cannot_read(&error));
    let ((_, _, origin), rest): ((RunId, Namespace, OldOrigin<D>), &[u8]) =
        postcard::take_from_bytes(body).map_err(|error| cannot_read(&error))?;
    if matches!(origin, OldOrigin::Job { .. }) {
        return read(&[body, &NO_KIN].concat());
    }
    let since = postcard::to_allocvec(since).map_err(|error| cannot_write(&error))?;
    let (before, _) = body.split_at(body.len() - rest.len());
    read(&[before, &since, rest, &NO_KIN].concat())
}

/// No kin, and no signatures.
const NO_KIN: [u8; 2] = [0, 0];
const UNSIGNED: [u8; 1] = [0];

/// [`punctual_core::run::Origin`] as earlier versions of a run have it: only its length matters.
#[derive(Deserialize)]
#[expect(dead_code, reason = "read for its length")]
enum OldOrigin<D> {
    Job { id: JobId, name: Name, revision: u32 },
    AdHoc(D),
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read for its length")]
struct Definition3 {
    before: Definition2,
    strategy: Strategy,
    selector: Labels,
    key: Option<String>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "read for its length")]
struct Definition2 {
    schedules: Vec<Schedule>,
    task: Task,
    params: Params,
    timeout: Option<Duration>,
    retry: Retry,
    at_most_once: bool,
    overlap: Overlap,
    misfire: Misfire,
    priority: u8,
    running_max: Option<u32>,
    unique: Option<Unique>,
    dead_letter: bool,
    keep: Keep,
    description: String,
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

/// What the job's own row has to hold of its definition: nothing, if its revision comes with the same batch.
pub(crate) fn definition_beside(batch: &Batch, job: &Job) -> Result<Option<String>> {
    match batch.changes.get(&RowKey::Revision(job.id, job.revision)) {
        Some(Change::Insert(_) | Change::Update(_)) => Ok(None),
        Some(Change::Delete) | None => Ok(Some(json(&job.definition)?)),
    }
}

/// The names of calendars in a job's row, so that the jobs of a calendar are found without reading every definition.
pub(crate) fn calendar_names(definition: &Definition) -> Result<Option<String>> {
    let names: BTreeSet<&str> = definition.calendars().map(|keeping| keeping.name.as_str()).collect();
    if names.is_empty() { Ok(None) } else { Ok(Some(json(&names)?)) }
}

/// What the list of names contains if it has this one: a name has no quotes in it.
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

pub(crate) fn cannot_read(error: &dyn std::fmt::Display) -> Error {
    Error::Unusable(format!("the store holds a row that this version of Punctual cannot read: {error}"))
}

pub(crate) fn cannot_write(error: &dyn std::fmt::Display) -> Error {
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
    use punctual_core::run::{Child, Kin, Origin, Part, Trigger};

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
    fn a_parent_and_a_child_read_back_as_they_were_written() {
        let child = Child { run: RunId(7), worker: Some("w".into()), ended: Some(Status::Failed) };
        let part = Part { index: 2, total: 1000 };
        let place = Kin::Child { parent: RunId(7), part, worker: None };
        for kin in [Kin::Parent(vec![child; 1000]), place] {
            let run = Run { kin: Some(Box::new(kin)), ..run() };
            let mut buffer = Vec::new();
            write_run(&run, &mut buffer).unwrap();
            assert_eq!(*read_run(&buffer).unwrap(), run);
        }
    }

    /// A run as it was written before there were kin, and before its definition had the last so many bytes.
    fn of_version(version: u8, run: &Run, without: usize) -> Vec<u8> {
        let mut whole = Vec::new();
        write_run(run, &mut whole).unwrap();
        whole[0] = version;
        assert_eq!((whole.pop(), whole.pop()), (Some(0), Some(0)));
        if let Origin::AdHoc(definition) = &run.origin {
            let body = postcard::to_allocvec(definition).unwrap();
            let at = whole.windows(body.len()).position(|window| window == body).unwrap();
            whole.drain(at + body.len() - without..at + body.len());
        }
        whole
    }

    /// A run as it was written before there were routes.
    fn of_version_2(run: &Run) -> Vec<u8> {
        of_version(RUN_VERSION_2, run, postcard::to_allocvec(&Route::default()).unwrap().len())
    }

    #[test]
    fn a_signed_run_reads_back_as_it_was_written() {
        let mut signed = run();
        signed.sign(Some(&"n1".into()));
        let mut buffer = Vec::new();
        write_run(&signed, &mut buffer).unwrap();
        assert_eq!(*read_run(&buffer).unwrap(), signed);
    }

    #[test]
    fn a_run_of_the_fourth_version_is_not_signed() {
        let mut buffer = Vec::new();
        write_run(&run(), &mut buffer).unwrap();
        assert_eq!(buffer.pop(), Some(0));
        buffer[0] = RUN_VERSION_4;
        assert_eq!(*read_run(&buffer).unwrap(), run());
    }

    #[test]
    fn a_run_of_the_third_version_is_not_split() {
        let job = Origin::Job { id: JobId(9), name: "nightly".parse().unwrap(), revision: 3 };
        let selector = Arc::new(Labels::from([("disk".to_owned(), "ssd".to_owned())]));
        let route = Route { strategy: Strategy::Sticky, selector, key: Some("k".to_owned()), shards: None };
        let definition = Definition { route, ..Definition::of(Task::Shell("echo hello".to_owned())) };
        for origin in [job, Origin::AdHoc(Arc::new(definition))] {
            let run = Run { origin, ..run() };
            assert_eq!(*read_run(&of_version(RUN_VERSION_3, &run, 1)).unwrap(), run);
        }
    }

    #[test]
    fn a_run_of_the_second_version_has_the_default_route() {
        let job = Origin::Job { id: JobId(9), name: "nightly".parse().unwrap(), revision: 3 };
        for run in [run(), Run { origin: job, ..run() }] {
            assert_eq!(*read_run(&of_version_2(&run)).unwrap(), run);
        }
    }

    #[test]
    fn a_run_of_the_first_version_has_no_earlier_attempts() {
        let mut buffer = of_version_2(&run());
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
