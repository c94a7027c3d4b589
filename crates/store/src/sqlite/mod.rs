//! The default store: one folder, nothing to install.
//!
//! ```text
//! punctual.db    every row; one writer thread, a few readers
//! logs.db        output of attempts, with a writer of its own
//! acknowledged   how many commits were acknowledged, so that lost ones are noticed
//! lock           held by the one process that uses the folder
//! ```
//!
//! SQLite blocks, so every connection lives on a thread and is asked over a channel. The leader's reads have a reader
//! of their own: a long listing at a door never makes a fire late.
//!
//! In reading order: the files (`folder`, `mark`, `connection`, `schema`), what is written (`writer`, `changes`,
//! `checkpoint`), what is read (`reader`, `shard`, `doors`, `walk`), and the rest (`logs`, `prune`, `backup`).

mod failure;
mod folder;
mod mark;
mod connection;
mod schema;
mod lane;
mod queries;
mod place;
mod codec;
mod definitions;
mod rows;
mod transaction;
mod writer;
mod changes;
mod checkpoint;
mod reader;
mod shard;
mod doors;
mod walk;
mod logs;
mod circle;
mod prune;
mod backup;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_core::Timestamp;
use punctual_core::change::{
    Batch, DeadLetter, Found, Loaded, Revision, RunRecord, Skip, TimerPage, TimerPlace, Want,
};
use punctual_core::ids::{Epoch, JobId, RunId, SHARDS_MAX, ShardId, Token};
use punctual_core::job::Job;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Run;
use rusqlite::Connection;

pub use self::connection::Durability;
use self::checkpoint::{Carried, Helper};
use self::connection::{Use, explain};
use self::failure::{Failure, Health};
use self::folder::{Folder, Lock};
use self::lane::Lane;
use self::logs::{LogWriter, Syncer};
use self::mark::{Mark, MarkAtClose, Marked};
use self::prune::Places;
use self::reader::Reader;
use self::walk::Walk;
use self::writer::Writer;
use crate::{Error, JobFilter, LogChunk, PrunePolicy, Result, RunFilter, Stats, Store};

/// Readers for the doors: one may be in the middle of a long listing.
const DOOR_READERS: usize = 2;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many shards a new store gets. A store that is there keeps what it was made with.
    pub shards: u16,
    pub durability: Durability,
}

impl Default for Options {
    fn default() -> Self {
        Options { shards: 64, durability: Durability::Full }
    }
}

/// The parts end in the order in which they stand here: those that ask first, the lock last.
pub struct Sqlite {
    shards: u16,
    folder: Folder,
    pruned: Mutex<Places>,
    #[cfg(test)]
    health: Arc<Health>,
    leader: Lane<Reader>,
    doors: Lane<Reader>,
    log_reader: Lane<Reader>,
    log_writer: Lane<LogWriter>,
    _log_syncer: Syncer,
    writer: Lane<Writer>,
    _checkpoints: Helper,
    _mark: MarkAtClose,
    _lock: Lock,
}

impl Sqlite {
    /// Opens the store in a folder, and makes it if there is none. Blocks until everything acknowledged is back.
    pub fn open(dir: &Path, options: Options) -> Result<Sqlite> {
        connection::check_version()?;
        let folder = Folder::make(dir)?;
        let lock = Lock::take(&folder)?;
        let durability = options.durability;
        let (health, log_health) = (Arc::new(Health::default()), Arc::new(Health::default()));

        let (connection, total) = open_state(&folder, options)?;
        let mark = mark(&folder, total, durability)?;
        let mark_at_close = MarkAtClose { mark: mark.clone(), path: folder.state() };
        let state = |what_for| connection::open(&folder.state(), what_for, durability);
        let carried = Carried {
            connection: state(Use::Read)?,
            path: folder.state(),
            health: Arc::clone(&health),
            mark: mark.clone(),
        };
        let (checkpoints, helper) = checkpoint::start(carried)?;
        let writer = Writer::new(connection, Arc::clone(&health), mark, total.commits, checkpoints)
            .map_err(|failure| explain(&folder.state(), failure))?;
        let reader = || Ok(Reader::new(state(Use::Read)?, Arc::clone(&health)));
        let door_readers = (0..DOOR_READERS).map(|_| reader()).collect::<Result<_>>()?;

        // Output is not state: losing the last of it is allowed, so it is never waited for.
        let logs = |what_for| connection::open(&folder.logs(), what_for, Durability::Relaxed);
        let (log_writer, log_syncer) =
            LogWriter::start(open_logs(&folder)?, logs(Use::Read)?, Arc::clone(&log_health))?;
        let log_reader = Reader::new(logs(Use::Read)?, log_health);

        Ok(Sqlite {
            shards: total.shards,
            pruned: Mutex::new(Places::default()),
            #[cfg(test)]
            health: Arc::clone(&health),
            leader: Lane::start("leader", vec![reader()?])?,
            doors: Lane::start("doors", door_readers)?,
            log_reader: Lane::start("log-reader", vec![log_reader])?,
            log_writer: Lane::start("log-writer", vec![log_writer])?,
            _log_syncer: log_syncer,
            writer: Lane::start("writer", vec![writer])?,
            _checkpoints: helper,
            _mark: mark_at_close,
            _lock: lock,
            folder,
        })
    }

    /// `commit`, from a thread that may block: what the benchmark measures as the bare writer.
    pub fn commit_blocking(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        self.writer.ask_blocking(batches, |writer, batches| writer.commit(batches))
    }
}

/// What the shard rows of a store add up to.
#[derive(Debug, Clone, Copy)]
struct Total {
    shards: u16,
    commits: u64,
}

fn open_state(folder: &Folder, options: Options) -> Result<(Connection, Total)> {
    if !(1..=SHARDS_MAX).contains(&options.shards) {
        let asked = options.shards;
        return Err(Error::Unusable(format!("a store has 1 to {SHARDS_MAX} shards, {asked} were asked for")));
    }
    if let Some(marked) = Marked::read(folder).filter(|_| options.durability == Durability::Full) {
        marked.check_size(folder)?;
    }
    let path = folder.state();
    folder::make_private(&path)?;
    let mut connection = connection::open(&path, Use::Write, options.durability)?;
    let total = set_up(&mut connection, options.shards).map_err(|failure| explain(&path, failure))?;
    if total.shards != options.shards {
        let (made_with, asked) = (total.shards, options.shards);
        tracing::warn!(made_with, asked, "the number of shards cannot be changed, the store keeps its own");
    }
    Ok((connection, total))
}

fn set_up(connection: &mut Connection, shards: u16) -> Result<Total, Failure> {
    schema::STATE.migrate(connection, |transaction| {
        let mut statement = transaction.prepare(queries::shards::INSERT)?;
        (0..shards).try_for_each(|shard| statement.execute([shard]).map(|_| ()).map_err(Failure::from))
    })?;
    let total = connection.query_row(queries::shards::TOTAL, [], |row| {
        Ok(Total { shards: row.get(0)?, commits: row.get::<_, i64>(1)?.cast_unsigned() })
    })?;
    Ok(total)
}

/// Refuses a store that has less than it acknowledged; without durability there is nothing to hold it to.
fn mark(folder: &Folder, total: Total, durability: Durability) -> Result<Option<Arc<Mark>>> {
    if durability == Durability::Relaxed {
        Mark::remove(folder)?;
        return Ok(None);
    }
    if let Some(marked) = Marked::read(folder) {
        marked.check_commits(total.commits, folder)?;
    }
    let at_least = Marked { commits: total.commits, size: mark::size_of(&folder.state()) };
    Mark::open(folder, at_least).map(|mark| Some(Arc::new(mark)))
}

fn open_logs(folder: &Folder) -> Result<Connection> {
    let path = folder.logs();
    folder::make_private(&path)?;
    let mut connection = connection::open(&path, Use::Write, Durability::Relaxed)?;
    schema::LOGS.migrate(&mut connection, |_| Ok(())).map_err(|failure| explain(&path, failure))?;
    Ok(connection)
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.path();
        f.debug_struct("Sqlite").field("folder", &folder).field("shards", &self.shards).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Sqlite {
    fn shards(&self) -> u16 {
        self.shards
    }

    async fn acquire(&self, shards: &[ShardId]) -> Result<Vec<(ShardId, Epoch)>> {
        let shards = shards.to_vec();
        self.writer.ask(move |writer| writer.acquire(&shards)).await
    }

    async fn load(&self, shard: ShardId, epoch: Epoch) -> Result<Loaded> {
        self.leader.ask(move |reader| reader.read(|snapshot| snapshot.load(shard, epoch))).await
    }

    async fn commit(&self, batches: Arc<Vec<Batch>>) -> Result<()> {
        self.writer.ask_about(batches, |writer, batches| writer.commit(batches)).await
    }

    async fn fetch(&self, wants: Vec<(ShardId, Want)>) -> Result<Found> {
        self.leader.ask(move |reader| reader.read(|snapshot| snapshot.fetch(&wants))).await
    }

    async fn due(&self, shard: ShardId, after: TimerPlace, limit: usize) -> Result<TimerPage> {
        self.leader.ask(move |reader| reader.read(|snapshot| snapshot.due(shard, after, limit))).await
    }

    async fn job(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Job>>> {
        let (namespace, name) = (namespace.clone(), name.clone());
        self.doors.ask(move |reader| reader.read(|snapshot| snapshot.job_named(&namespace, &name))).await
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Job>>> {
        let filter = filter.clone();
        self.doors.ask(move |reader| reader.read(|snapshot| snapshot.jobs(&filter, after.as_ref(), limit))).await
    }

    async fn run(&self, namespace: &Namespace, run: RunId) -> Result<Option<RunRecord>> {
        let record = self.doors.ask(move |reader| reader.read(|snapshot| snapshot.run(run))).await?;
        Ok(record.filter(|record| record.run.namespace == *namespace))
    }

    async fn runs(&self, filter: &RunFilter, after: Option<RunId>, limit: usize) -> Result<Vec<Arc<Run>>> {
        let mut walk = Walk::new(filter, after, limit, self.shards);
        while walk.goes_on() {
            let step = move |reader: &mut Reader| {
                reader.read(|snapshot| walk.step(snapshot).map(|()| walk))
            };
            walk = self.doors.ask(step).await?;
        }
        Ok(walk.runs)
    }

    async fn dead_letters(
        &self,
        namespace: Option<&Namespace>,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        let namespace = namespace.cloned();
        let read = move |reader: &mut Reader| {
            reader.read(|snapshot| snapshot.dead_letters(namespace.as_ref(), after, limit))
        };
        self.doors.ask(read).await
    }

    async fn skips(
        &self,
        job: Option<JobId>,
        after: Option<(JobId, Timestamp)>,
        limit: usize,
    ) -> Result<Vec<Skip>> {
        self.doors.ask(move |reader| reader.read(|snapshot| snapshot.skips(job, after, limit))).await
    }

    async fn revision(&self, job: JobId, revision: u32) -> Result<Option<Arc<Revision>>> {
        self.doors.ask(move |reader| reader.read(|snapshot| snapshot.revision(job, revision))).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.doors.ask(|reader| reader.read(|snapshot| snapshot.stats())).await
    }

    async fn append_logs(&self, chunks: Vec<LogChunk>) -> Result<()> {
        self.log_writer.ask(move |writer| writer.append(&chunks)).await
    }

    async fn read_logs(
        &self,
        run: RunId,
        after: Option<(Token, u32)>,
        limit: usize,
    ) -> Result<Vec<LogChunk>> {
        self.log_reader.ask(move |reader| reader.read(|snapshot| snapshot.logs(run, after, limit))).await
    }

    async fn prune(&self, policy: &PrunePolicy, limit: usize) -> Result<usize> {
        self.prune_all(policy, limit).await
    }

    async fn backup(&self, to: &Path) -> Result<()> {
        backup::start(self.folder.clone(), to.to_owned()).await
    }
}
