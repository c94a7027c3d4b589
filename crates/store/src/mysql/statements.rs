//! The statements that write rows, table by table: many rows each where possible, always by primary key.
//!
//! To delete or change several rows, a derived table of their keys is joined with the table and drives the join
//! (`STRAIGHT_JOIN`). With a list of keys, the optimizer scans a small table instead, whatever the hint, and a scan
//! waits for row locks of the other lane.

use punctual_core::Timestamp;
use punctual_core::change::{Batch, DeadLetter, Revision, Skip, UniqueKey};
use punctual_core::ids::ShardId;
use punctual_core::job::Job;
use punctual_core::name::Name;
use punctual_core::run::{Run, Status};

use super::script::{Script, Shape, hex, hex_or_null, int, int_or_null, put};
use crate::tally::Tally;
use crate::{Result, codec, place};

pub(super) const fn rows_come(head: &'static str) -> Shape {
    Shape { head, between: ", ", tail: "" }
}

pub(super) const fn rows_go(tail: &'static str) -> Shape {
    Shape { head: "DELETE t FROM (", between: " UNION ALL ", tail }
}

const FENCES: Shape = Shape {
    head: "UPDATE (",
    between: " UNION ALL ",
    tail: ") AS f STRAIGHT_JOIN shards AS s ON s.shard = f.shard AND s.epoch = f.epoch AND s.commit_no = f.commit_no \
           SET s.commit_no = s.commit_no + 1, s.last_id = f.last_id, s.jobs = s.jobs + f.jobs, \
           s.live_runs = s.live_runs + f.live_runs, s.history_runs = s.history_runs + f.history_runs, \
           s.dead_letters = s.dead_letters + f.dead_letters",
};

/// The fence: unless it hits one row for every batch, one of them is outdated.
pub(super) fn fences(script: &mut Script, batches: &[&Batch]) -> Result<()> {
    script.many(FENCES, batches, |sql, batch| {
        let Tally { jobs, live_runs, history_runs, dead_letters } = Tally::of(&batch.changes);
        let columns = [
            ("SELECT ", i64::from(batch.shard.0), " AS shard"),
            (", ", i64::from(batch.epoch.0), " AS epoch"),
            (", ", batch.commit.cast_signed(), " AS commit_no"),
            (", ", batch.last_id, " AS last_id"),
            (", ", jobs, " AS jobs"),
            (", ", live_runs, " AS live_runs"),
            (", ", history_runs, " AS history_runs"),
            (", ", dead_letters, " AS dead_letters"),
        ];
        for (before, value, name) in columns {
            put(sql, before);
            int(sql, value);
            put(sql, name);
        }
        Ok(())
    })
}

pub(super) fn insert_jobs(script: &mut Script, jobs: &[(&Batch, &Job)]) -> Result<()> {
    let shape = rows_come(
        "INSERT INTO jobs (id, shard, namespace, name, revision, paused, created_at, updated_at, fired_through, next_due, \
         wake_at, fires, zone_data, keep_runs, keep_days, with_calendar, calendars, definition) VALUES ",
    );
    script.many(shape, jobs, |sql, (batch, job)| {
        let (cursor, keep) = (&job.cursor, &job.definition.keep);
        let calendars = codec::calendar_names(&job.definition)?;
        let mut row = Values::begin(sql);
        row.int(job.id.0).int(batch.shard.0).hex(job.namespace.as_str()).hex(job.name.as_str());
        row.int(job.revision).int(job.paused).instant(job.created_at).instant(job.updated_at);
        row.instant(cursor.fired_through).instant_or_null(cursor.next_due).instant_or_null(cursor.wake_at);
        row.hex(codec::json(&cursor.fires)?)
            .hex_or_null(cursor.zone_data.as_deref())
            .int(keep.runs)
            .int(keep.days)
            .int(calendars.is_some());
        row.hex_or_null(calendars.as_deref());
        row.hex_or_null(codec::definition_beside(batch, job)?.as_deref());
        row.end();
        Ok(())
    })
}

/// A fire. It misses a job with another revision, and a job whose cursor would go back.
pub(super) fn move_jobs(script: &mut Script, jobs: &[&Job]) -> Result<()> {
    jobs.iter().try_for_each(|job| {
        script.one(1, |sql| {
            put(sql, "UPDATE jobs SET ");
            write_cursor(sql, job)?;
            put(sql, " WHERE id = ");
            int(sql, job.id.0);
            put(sql, " AND revision = ");
            int(sql, job.revision);
            not_back(sql, job);
            Ok(())
        })
    })
}

/// Writes all columns. It misses a job whose cursor would go back.
pub(super) fn edit_job(script: &mut Script, batch: &Batch, job: &Job) -> Result<()> {
    script.one(1, |sql| {
        let (keep, calendars) = (&job.definition.keep, codec::calendar_names(&job.definition)?);
        put(sql, "UPDATE jobs SET ");
        write_cursor(sql, job)?;
        put(sql, ", revision = ");
        int(sql, job.revision);
        put(sql, ", keep_runs = ");
        int(sql, keep.runs);
        put(sql, ", keep_days = ");
        int(sql, keep.days);
        put(sql, ", with_calendar = ");
        int(sql, calendars.is_some());
        put(sql, ", calendars = ");
        hex_or_null(sql, calendars.as_deref().map(str::as_bytes));
        put(sql, ", definition = ");
        hex_or_null(sql, codec::definition_beside(batch, job)?.as_deref().map(str::as_bytes));
        put(sql, " WHERE id = ");
        int(sql, job.id.0);
        not_back(sql, job);
        Ok(())
    })
}

fn write_cursor(sql: &mut Vec<u8>, job: &Job) -> Result<()> {
    put(sql, "paused = ");
    int(sql, job.paused);
    put(sql, ", updated_at = ");
    int(sql, job.updated_at.as_millis());
    put(sql, ", fired_through = ");
    int(sql, job.cursor.fired_through.as_millis());
    put(sql, ", next_due = ");
    int_or_null(sql, job.cursor.next_due.map(Timestamp::as_millis));
    put(sql, ", wake_at = ");
    int_or_null(sql, job.cursor.wake_at.map(Timestamp::as_millis));
    put(sql, ", fires = ");
    hex(sql, codec::json(&job.cursor.fires)?.as_bytes());
    put(sql, ", zone_data = ");
    hex_or_null(sql, job.cursor.zone_data.as_deref().map(str::as_bytes));
    Ok(())
}

fn not_back(sql: &mut Vec<u8>, job: &Job) {
    put(sql, " AND fired_through <= ");
    int(sql, job.cursor.fired_through.as_millis());
}

/// The revisions of these jobs are pruned later, when no run needs them any more.
pub(super) fn delete_jobs(script: &mut Script, jobs: &[i64]) -> Result<()> {
    let tail = ") AS f STRAIGHT_JOIN jobs AS t ON t.id = f.id";
    let head =
        "INSERT IGNORE INTO deleted_jobs (job, namespace, name) SELECT t.id, t.namespace, t.name FROM (";
    script.many_or_fewer(Shape { head, between: " UNION ALL ", tail }, jobs, write_id)?;
    delete(script, rows_go(tail), jobs)
}

pub(super) fn insert_revisions(script: &mut Script, revisions: &[&Revision]) -> Result<()> {
    let shape = rows_come("INSERT INTO revisions (job, revision, made_at, state, definition) VALUES ");
    script.many(shape, revisions, |sql, revision| {
        let mut row = Values::begin(sql);
        row.int(revision.job.0).int(revision.revision).instant(revision.at);
        row.hex(codec::json(&revision.state)?).hex(codec::json(&revision.definition)?).end();
        Ok(())
    })
}

pub(super) fn update_revision(script: &mut Script, revision: &Revision) -> Result<()> {
    script.one(1, |sql| {
        put(sql, "UPDATE revisions SET made_at = ");
        int(sql, revision.at.as_millis());
        put(sql, ", state = ");
        hex(sql, codec::json(&revision.state)?.as_bytes());
        put(sql, ", definition = ");
        hex(sql, codec::json(&revision.definition)?.as_bytes());
        put(sql, " WHERE job = ");
        int(sql, revision.job.0);
        put(sql, " AND revision = ");
        int(sql, revision.revision);
        Ok(())
    })
}

pub(super) fn delete_revisions(script: &mut Script, revisions: &[(i64, u32)]) -> Result<()> {
    revisions.iter().try_for_each(|(job, revision)| {
        script.one(1, |sql| {
            put(sql, "DELETE FROM revisions WHERE job = ");
            int(sql, *job);
            put(sql, " AND revision = ");
            int(sql, *revision);
            Ok(())
        })
    })
}

pub(super) fn insert_runs(script: &mut Script, runs: &[&Run]) -> Result<()> {
    let shape = rows_come("INSERT INTO runs (place, shard, wake_at, job, status, namespace, body) VALUES ");
    let mut body = Vec::new();
    script.many(shape, runs, |sql, run| {
        codec::write_run(run, &mut body)?;
        let mut row = Values::begin(sql);
        row.int(place::of(run.id)).int(run.shard().0).instant_or_null(run.wake_at());
        row.int_or_null(run.job().map(|job| job.0)).int(codec::status_number(run.status()));
        row.hex(run.namespace.as_str()).hex(&body).end();
        Ok(())
    })
}

pub(super) fn update_runs(script: &mut Script, runs: &[&Run]) -> Result<()> {
    let mut body = Vec::new();
    runs.iter().try_for_each(|run| {
        script.one(1, |sql| {
            codec::write_run(run, &mut body)?;
            put(sql, "UPDATE runs SET wake_at = ");
            int_or_null(sql, run.wake_at().map(Timestamp::as_millis));
            put(sql, ", status = ");
            int(sql, codec::status_number(run.status()));
            put(sql, ", body = ");
            hex(sql, &body);
            put(sql, " WHERE place = ");
            int(sql, place::of(run.id));
            Ok(())
        })
    })
}

pub(super) fn delete_runs(script: &mut Script, places: &[i64]) -> Result<()> {
    delete(script, rows_go(") AS f STRAIGHT_JOIN runs AS t ON t.place = f.id"), places)
}

pub(super) fn insert_history(script: &mut Script, runs: &[&Run]) -> Result<()> {
    let shape =
        rows_come("INSERT INTO history (id, job, place, status, finished_at, namespace, body) VALUES ");
    let mut body = Vec::new();
    script.many(shape, runs, |sql, run| {
        codec::write_run(run, &mut body)?;
        let mut row = Values::begin(sql);
        row.int(run.id.0).int_or_null(run.job().map(|job| job.0)).int(history_place(run));
        row.int(codec::status_number(run.status())).instant(finished_at(run));
        row.hex(run.namespace.as_str()).hex(&body).end();
        Ok(())
    })
}

pub(super) fn update_history(script: &mut Script, run: &Run) -> Result<()> {
    let mut body = Vec::new();
    codec::write_run(run, &mut body)?;
    script.one(1, |sql| {
        put(sql, "UPDATE history SET place = ");
        int(sql, history_place(run));
        put(sql, ", status = ");
        int(sql, codec::status_number(run.status()));
        put(sql, ", finished_at = ");
        int(sql, finished_at(run).as_millis());
        put(sql, ", body = ");
        hex(sql, &body);
        put(sql, " WHERE id = ");
        int(sql, run.id.0);
        Ok(())
    })
}

/// Adds runs to the side tables for rare properties: a key, or an end other than success.
pub(super) fn insert_marks(script: &mut Script, runs: &[&Run]) -> Result<()> {
    let keyed: Vec<&&Run> = runs.iter().filter(|run| run.key.is_some()).collect();
    let shape = rows_come("INSERT IGNORE INTO keyed (run, place, run_key) VALUES ");
    script.many_or_fewer(shape, &keyed, |sql, run| {
        let key = run.key.as_deref().unwrap_or_default();
        Values::begin(sql).int(run.id.0).int(place::of(run.id)).hex(key).end();
        Ok(())
    })?;
    let is_unusual = |run: &&&Run| run.status().is_terminal() && run.status() != Status::Succeeded;
    let unusual: Vec<&&Run> = runs.iter().filter(is_unusual).collect();
    let shape = rows_come("INSERT IGNORE INTO unusual (run, status) VALUES ");
    script.many_or_fewer(shape, &unusual, |sql, run| {
        Values::begin(sql).int(run.id.0).int(codec::status_number(run.status())).end();
        Ok(())
    })
}

/// Removes deleted runs from the side tables.
pub(super) fn delete_marks(script: &mut Script, runs: &[i64]) -> Result<()> {
    for tail in [
        ") AS f STRAIGHT_JOIN keyed AS t ON t.run = f.id",
        ") AS f STRAIGHT_JOIN unusual AS t ON t.run = f.id",
    ] {
        script.many_or_fewer(rows_go(tail), runs, write_id)?;
    }
    Ok(())
}

/// The sort key of a run among the runs of its job (its id), or among the ad-hoc runs (its end).
fn history_place(run: &Run) -> i64 {
    if run.job().is_some() { run.id.0 } else { finished_at(run).as_millis() }
}

fn finished_at(run: &Run) -> Timestamp {
    run.finished_at.unwrap_or(run.created_at)
}

pub(super) fn delete_history(script: &mut Script, runs: &[i64]) -> Result<()> {
    delete(script, rows_go(") AS f STRAIGHT_JOIN history AS t ON t.id = f.id"), runs)
}

pub(super) fn insert_letters(script: &mut Script, letters: &[&DeadLetter]) -> Result<()> {
    let shape = rows_come("INSERT INTO dead_letters (run, namespace, job, died_at) VALUES ");
    script.many(shape, letters, |sql, letter| {
        let mut row = Values::begin(sql);
        row.int(letter.run.0).hex(letter.namespace.as_str());
        row.hex_or_null(letter.job.as_ref().map(Name::as_str)).instant(letter.at).end();
        Ok(())
    })
}

pub(super) fn update_letter(script: &mut Script, letter: &DeadLetter) -> Result<()> {
    script.one(1, |sql| {
        put(sql, "UPDATE dead_letters SET namespace = ");
        hex(sql, letter.namespace.as_str().as_bytes());
        put(sql, ", job = ");
        hex_or_null(sql, letter.job.as_ref().map(|job| job.as_str().as_bytes()));
        put(sql, ", died_at = ");
        int(sql, letter.at.as_millis());
        put(sql, " WHERE run = ");
        int(sql, letter.run.0);
        Ok(())
    })
}

pub(super) fn delete_letters(script: &mut Script, runs: &[i64]) -> Result<()> {
    let shape = rows_go(") AS f STRAIGHT_JOIN dead_letters AS t ON t.run = f.id");
    delete(script, shape, runs)
}

pub(super) fn insert_uniques(script: &mut Script, uniques: &[(ShardId, &UniqueKey)]) -> Result<()> {
    let shape = rows_come("INSERT INTO uniques (shard, unique_key, run, expires_at) VALUES ");
    script.many(shape, uniques, |sql, (shard, unique)| {
        let mut row = Values::begin(sql);
        row.int(shard.0).hex(unique.key.as_bytes()).int(unique.run.0).instant(unique.expires_at).end();
        Ok(())
    })
}

pub(super) fn update_unique(script: &mut Script, shard: ShardId, unique: &UniqueKey) -> Result<()> {
    script.one(1, |sql| {
        put(sql, "UPDATE uniques SET run = ");
        int(sql, unique.run.0);
        put(sql, ", expires_at = ");
        int(sql, unique.expires_at.as_millis());
        of_unique(sql, shard, &unique.key);
        Ok(())
    })
}

pub(super) fn delete_unique(script: &mut Script, shard: ShardId, key: &str) -> Result<()> {
    script.one(1, |sql| {
        put(sql, "DELETE FROM uniques");
        of_unique(sql, shard, key);
        Ok(())
    })
}

fn of_unique(sql: &mut Vec<u8>, shard: ShardId, key: &str) {
    put(sql, " WHERE shard = ");
    int(sql, shard.0);
    put(sql, " AND unique_key = ");
    hex(sql, key.as_bytes());
}

pub(super) fn insert_skips(script: &mut Script, skips: &[&Skip]) -> Result<()> {
    let shape = rows_come("INSERT INTO skips (job, revision, from_due, to_due, reason, made_at) VALUES ");
    script.many(shape, skips, |sql, skip| {
        let mut row = Values::begin(sql);
        row.int(skip.job.0).int(skip.revision).instant(skip.from).instant(skip.to);
        row.hex(codec::json(&skip.reason)?).instant(skip.at).end();
        Ok(())
    })
}

pub(super) fn update_skip(script: &mut Script, skip: &Skip) -> Result<()> {
    script.one(1, |sql| {
        put(sql, "UPDATE skips SET to_due = ");
        int(sql, skip.to.as_millis());
        put(sql, ", reason = ");
        hex(sql, codec::json(&skip.reason)?.as_bytes());
        put(sql, ", made_at = ");
        int(sql, skip.at.as_millis());
        of_skip(sql, skip.job.0, skip.revision, skip.from.as_millis());
        Ok(())
    })
}

pub(super) fn delete_skip(script: &mut Script, job: i64, revision: u32, from: i64) -> Result<()> {
    script.one(1, |sql| {
        put(sql, "DELETE FROM skips");
        of_skip(sql, job, revision, from);
        Ok(())
    })
}

fn of_skip(sql: &mut Vec<u8>, job: i64, revision: u32, from: i64) {
    put(sql, " WHERE job = ");
    int(sql, job);
    put(sql, " AND revision = ");
    int(sql, revision);
    put(sql, " AND from_due = ");
    int(sql, from);
}

fn delete(script: &mut Script, shape: Shape, keys: &[i64]) -> Result<()> {
    script.many(shape, keys, write_id)
}

fn write_id(sql: &mut Vec<u8>, id: &i64) -> Result<()> {
    put(sql, "SELECT ");
    int(sql, *id);
    put(sql, " AS id");
    Ok(())
}

/// One row of an insert.
pub(super) struct Values<'a> {
    sql: &'a mut Vec<u8>,
    before: &'static str,
}

impl<'a> Values<'a> {
    pub(super) fn begin(sql: &'a mut Vec<u8>) -> Self {
        Values { sql, before: "(" }
    }

    fn next(&mut self) -> &mut Vec<u8> {
        put(self.sql, std::mem::replace(&mut self.before, ", "));
        self.sql
    }

    pub(super) fn int(&mut self, number: impl Into<i64>) -> &mut Self {
        int(self.next(), number);
        self
    }

    fn int_or_null(&mut self, number: Option<i64>) -> &mut Self {
        int_or_null(self.next(), number);
        self
    }

    pub(super) fn instant(&mut self, at: Timestamp) -> &mut Self {
        self.int(at.as_millis())
    }

    fn instant_or_null(&mut self, at: Option<Timestamp>) -> &mut Self {
        self.int_or_null(at.map(Timestamp::as_millis))
    }

    pub(super) fn hex(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        hex(self.next(), bytes.as_ref());
        self
    }

    fn hex_or_null(&mut self, text: Option<&str>) -> &mut Self {
        hex_or_null(self.next(), text.map(str::as_bytes));
        self
    }

    pub(super) fn end(&mut self) {
        put(self.sql, ")");
    }
}
