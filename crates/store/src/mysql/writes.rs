//! The statements that write rows: many rows each where possible, always by primary key.
//!
//! To delete or change several rows, a derived table of their keys is joined with the table and drives the join
//! (`STRAIGHT_JOIN`). With a list of keys, the optimizer scans a small table instead, whatever the hint, and a scan
//! waits for row locks of the other commit connection.

use std::collections::BTreeSet;

use punctual_core::change::Batch;
use punctual_core::ids::RunId;
use punctual_core::run::Status;

use super::packets::{Packets, Shape, int, literal, put, put_list};
use crate::sql::batches::{FENCE, Sorted, fence_of};
use crate::sql::tables::{
    Action, DELETE_HISTORY, DELETE_RUN, INSERT_HISTORY, INSERT_RUN, Values, WRITES, Write,
};
use crate::sql::value::Value;
use crate::{codec, ended_key, live_key};

const FENCES: Shape<'static> = Shape {
    head: "UPDATE (",
    between: " UNION ALL ",
    tail: ") AS f STRAIGHT_JOIN shards AS s ON s.shard = f.shard AND s.epoch = f.epoch AND s.commit_no = f.commit_no \
           SET s.commit_no = s.commit_no + 1, s.last_id = f.last_id, s.jobs = s.jobs + f.jobs, \
           s.live_runs = s.live_runs + f.live_runs, s.history_runs = s.history_runs + f.history_runs, \
           s.dead_letters = s.dead_letters + f.dead_letters",
};

/// The fence: unless it hits one row for every batch, one of them is outdated.
pub(super) fn fences(packets: &mut Packets, batches: &[&Batch]) {
    packets.many(FENCES, batches, |sql, batch| {
        put_select(sql, FENCE.into_iter().zip(&fence_of(batch)));
    });
}

/// Writes the rows of all writes.
pub(super) fn write(packets: &mut Packets, sorted: &Sorted<'_>) {
    for (id, rows) in sorted.writes() {
        let write = &WRITES[id];
        match &write.action {
            Action::Insert => insert(packets, write, &rows),
            Action::Update { set, and } => rows.iter().for_each(|row| update(packets, write, row, set, and)),
            Action::Delete => delete(packets, write, &rows),
        }
        match id {
            DELETE_RUN => delete_from_side_tables(packets, &gone_for_good(sorted)),
            DELETE_HISTORY => delete_from_side_tables(packets, &ids(&rows)),
            INSERT_RUN | INSERT_HISTORY => insert_into_side_tables(packets, id == INSERT_RUN, &rows),
            _ => {}
        }
    }
}

fn insert(packets: &mut Packets, write: &Write, rows: &[&[Value<'_>]]) {
    let names: Vec<&str> = write.table.columns.iter().map(|(name, _)| *name).collect();
    let head = format!("INSERT INTO {} ({}) VALUES ", write.table.name, names.join(", "));
    packets.many(Shape { head: &head, between: ", ", tail: "" }, rows, |sql, row| put_row(sql, row));
}

fn put_row(sql: &mut Vec<u8>, row: &[Value<'_>]) {
    put(sql, "(");
    put_list(sql, row, |sql, value| literal(sql, value));
    put(sql, ")");
}

fn update(packets: &mut Packets, write: &Write, row: &[Value<'_>], set: &[usize], and: &[(usize, &str)]) {
    let conditions = (0..write.table.key).map(|column| (column, "=")).chain(and.iter().copied());
    packets.one(|sql| {
        put(sql, "UPDATE ");
        put(sql, write.table.name);
        put(sql, " SET ");
        put_list(sql, set, |sql, column| {
            put(sql, write.name(*column));
            put(sql, " = ");
            literal(sql, &row[*column]);
        });
        for (index, (column, operator)) in conditions.enumerate() {
            put(sql, if index == 0 { " WHERE " } else { " AND " });
            put(sql, write.name(column));
            put(sql, " ");
            put(sql, operator);
            put(sql, " ");
            literal(sql, &row[column]);
        }
    });
}

fn delete(packets: &mut Packets, write: &Write, rows: &[&[Value<'_>]]) {
    let keys = (0..write.table.key).map(|column| write.name(column));
    let on: Vec<String> = keys.map(|key| format!("t.{key} = f.{key}")).collect();
    let tail = format!(") AS f STRAIGHT_JOIN {} AS t ON {}", write.table.name, on.join(" AND "));
    let shape = Shape { head: "DELETE t FROM (", between: " UNION ALL ", tail: &tail };
    packets.many(shape, rows, |sql, row| {
        put_select(sql, row.iter().enumerate().map(|(column, value)| (write.name(column), value)));
    });
}

/// One row of a derived table.
fn put_select<'v>(sql: &mut Vec<u8>, columns: impl Iterator<Item = (&'static str, &'v Value<'v>)>) {
    put(sql, "SELECT ");
    put_list(sql, columns, |sql, (name, value)| {
        literal(sql, value);
        put(sql, " AS ");
        put(sql, name);
    });
}

/// Adds runs to the tables for rare properties: a key, a parent, or an end other than success.
fn insert_into_side_tables(packets: &mut Packets, is_live: bool, rows: &[&[Value<'_>]]) {
    // The columns of `run_key`, `parent` and `status`.
    let (key, parent, status) = if is_live { (6, 7, 4) } else { (5, 6, 2) };
    let places = |row: &[Value<'_>]| {
        let place = number(&row[0]);
        let id = if is_live { live_key::run(place) } else { ended_key::run(place) };
        let is_child = row[parent] != Value::Null;
        let ended = if is_child { ended_key::child(id) } else { ended_key::whole(id) };
        [ended, live_key::of(id)]
    };
    let with = |column: usize| -> Vec<Values<'_>> {
        let those = rows.iter().filter(|row| row[column] != Value::Null);
        let values = those.map(|row| {
            let [ended, place] = places(row);
            vec![ended.into(), place.into(), row[column].clone()]
        });
        values.collect()
    };
    let head = "INSERT IGNORE INTO keyed (ended, place, run_key) VALUES ";
    packets.many_or_fewer(Shape { head, between: ", ", tail: "" }, &with(key), |sql, row| put_row(sql, row));
    let head = "INSERT IGNORE INTO children (ended, place, parent) VALUES ";
    packets
        .many_or_fewer(Shape { head, between: ", ", tail: "" }, &with(parent), |sql, row| put_row(sql, row));
    let succeeded = codec::status_number(Status::Succeeded);
    let unusual: Vec<Values<'_>> = rows
        .iter()
        .filter(|row| number(&row[status]) > succeeded)
        .map(|row| vec![places(row)[0].into(), row[status].clone()])
        .collect();
    let shape = Shape { head: "INSERT IGNORE INTO unusual (ended, status) VALUES ", between: ", ", tail: "" };
    packets.many_or_fewer(shape, &unusual, |sql, row| put_row(sql, row));
}

fn delete_from_side_tables(packets: &mut Packets, places: &[i64]) {
    for tail in [
        ") AS f STRAIGHT_JOIN keyed AS t ON t.ended = f.id",
        ") AS f STRAIGHT_JOIN unusual AS t ON t.ended = f.id",
        ") AS f STRAIGHT_JOIN children AS t ON t.ended = f.id",
    ] {
        let shape = Shape { head: "DELETE t FROM (", between: " UNION ALL ", tail };
        packets.many_or_fewer(shape, places, put_id);
    }
}

/// Both places that deleted live runs could have in the history, if they do not become history in the same commit.
fn gone_for_good(sorted: &Sorted<'_>) -> Vec<i64> {
    let ended = ids(&sorted.rows(INSERT_HISTORY)).into_iter().map(ended_key::run);
    let ended: BTreeSet<RunId> = ended.collect();
    let gone = ids(&sorted.rows(DELETE_RUN)).into_iter().map(live_key::run);
    let for_good = gone.filter(|run| !ended.contains(run));
    for_good.flat_map(|run| [ended_key::whole(run), ended_key::child(run)]).collect()
}

fn ids(rows: &[&[Value<'_>]]) -> Vec<i64> {
    rows.iter().map(|row| number(&row[0])).collect()
}

fn number(value: &Value<'_>) -> i64 {
    if let Value::Int(number) = value { *number } else { 0 }
}

fn put_id(sql: &mut Vec<u8>, id: &i64) {
    put(sql, "SELECT ");
    int(sql, *id);
    put(sql, " AS id");
}
