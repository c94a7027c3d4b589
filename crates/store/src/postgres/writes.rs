//! Changes as column arrays: one statement per table and kind of change, for any number of rows.
//!
//! An update or delete that does not hit every row it names divides by zero, which fails its transaction: so `COMMIT`
//! can be sent along with the writes, and becomes a rollback if any of them missed.

use std::sync::LazyLock;

use punctual_core::change::Batch;

use super::connection::{Param, Request};
use super::queries;
use crate::sql::batches::{FENCE, Sorted, fence_of};
use crate::sql::tables::{Action, INSERT_HISTORY, Values, WRITES, Write, WriteId};
use crate::sql::value::Value;

/// Bytes of values in one statement; a single larger row is allowed. The server accepts a message of 1 GiB at most.
const STATEMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The statement of each write.
pub(super) static STATEMENTS: LazyLock<Vec<String>> =
    LazyLock::new(|| WRITES.iter().map(statement).collect());

fn statement(write: &Write) -> String {
    let (table, columns) = (write.table.name, write.columns());
    let names: Vec<&str> = columns.iter().map(|column| write.name(*column)).collect();
    let arrays: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| format!("${}::{}[]", index + 1, write.table.columns[*column].1))
        .collect();
    let (names, arrays) = (names.join(", "), arrays.join(", "));
    let keys = (0..write.table.key).map(|column| (column, "="));
    let compare = |(column, operator): (usize, &str)| {
        let name = write.name(column);
        format!("{table}.{name} {operator} u.{name}")
    };
    match &write.action {
        Action::Insert => format!("INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays})"),
        Action::Update { set, and } => {
            let set: Vec<String> = set
                .iter()
                .map(|column| write.name(*column))
                .map(|name| format!("{name} = u.{name}"))
                .collect();
            let conditions: Vec<String> = keys.chain(and.iter().copied()).map(compare).collect();
            must_hit(&format!(
                "UPDATE {table} SET {} FROM unnest({arrays}) AS u ({names}) WHERE {}",
                set.join(", "),
                conditions.join(" AND ")
            ))
        }
        Action::Delete if columns.len() == 1 => {
            must_hit(&format!("DELETE FROM {table} WHERE {names} = ANY({arrays})"))
        }
        Action::Delete => {
            let conditions: Vec<String> = keys.map(compare).collect();
            must_hit(&format!(
                "DELETE FROM {table} USING unnest({arrays}) AS u ({names}) WHERE {}",
                conditions.join(" AND ")
            ))
        }
    }
}

/// A statement that must hit as many rows as its first array has elements.
fn must_hit(sql: &str) -> String {
    format!("WITH hit AS ({sql} RETURNING 1) SELECT 1 / (count(*) = cardinality($1))::int FROM hit")
}

/// The requests that write these rows.
pub(super) fn requests<'a>(sorted: &'a Sorted<'_>) -> Vec<Request<'a>> {
    let mut requests = Vec::new();
    for (write, mut rows) in sorted.writes() {
        if write == INSERT_HISTORY {
            // New ids go to the end of the index, so a batch in the order of ids touches few of its pages.
            rows.sort_by_key(|row| if let Value::Int(id) = row[0] { id } else { 0 });
        }
        let mut rest = &rows[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(fitting(rest));
            requests.push(piece_request(write, piece));
            rest = after;
        }
    }
    requests
}

fn piece_request<'a>(write: WriteId, rows: &[&'a [Value<'a>]]) -> Request<'a> {
    let column = |column: usize| {
        Box::new(rows.iter().map(|row| &row[column]).collect::<Vec<&'a Value<'a>>>()) as Param<'a>
    };
    Request { sql: &STATEMENTS[write], params: WRITES[write].columns().into_iter().map(column).collect() }
}

/// How many of the first rows fit into one statement.
fn fitting(rows: &[&[Value<'_>]]) -> usize {
    let bytes = |value: &Value<'_>| match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Null | Value::Int(_) => 0,
    };
    let mut sum = 0;
    let fit = rows.iter().take_while(|row| {
        sum += row.iter().map(bytes).sum::<usize>();
        sum <= STATEMENT_BYTES_MAX
    });
    fit.count().max(1)
}

/// The fences of batches, at most one of each shard.
pub(super) fn fence(batches: &[&Batch]) -> Request<'static> {
    let rows: Vec<Values<'static>> = batches.iter().map(|batch| fence_of(batch)).collect();
    let column = |column: usize| {
        Box::new(rows.iter().map(|row| row[column].clone()).collect::<Vec<Value<'static>>>())
            as Param<'static>
    };
    Request { sql: queries::shards::FENCE, params: (0..FENCE.len()).map(column).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::tables::{DELETE_RUN, INSERT_RUN};

    #[test]
    fn large_rows_are_sent_in_pieces_that_hold_all_of_them() {
        let body = || Value::from(vec![0_u8; STATEMENT_BYTES_MAX / 4 + 1]);
        let row = || (0..8_i64).map(Value::from).chain([body()]);
        let sorted = Sorted::of(INSERT_RUN, 9, (0..10).flat_map(|_| row()).collect());
        assert_eq!(fitting(&sorted.rows(INSERT_RUN)), 3);
        assert_eq!(requests(&sorted).len(), 4);
    }

    #[test]
    fn a_statement_names_every_row_it_must_hit() {
        assert_eq!(
            STATEMENTS[DELETE_RUN],
            "WITH hit AS (DELETE FROM runs WHERE place = ANY($1::int8[]) RETURNING 1) \
             SELECT 1 / (count(*) = cardinality($1))::int FROM hit"
        );
    }
}
