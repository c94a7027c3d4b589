//! Translates statements into the dialect of a database.
//!
//! A statement is written once, in PostgreSQL's syntax, and translated when it is first used. Parameters are `$1`, with
//! a cast (`$1::text`) where PostgreSQL needs one. What differs between the databases is written like this:
//!
//! ```text
//! (a, b) > ($1, $2)             MySQL uses no index for it: a > $1 OR (a = $1 AND b > $2)
//! {mysql X else Y}              X for MySQL, Y for the others
//! {keys a int8, b text}         the rows with these keys; their number is not known beforehand
//! {job}, {queue}, {now}, ...    lists of columns, and the clock of the database
//! /*! FORCE INDEX (i) */        for MySQL: a comment elsewhere
//! ON CONFLICT DO NOTHING        MySQL: INSERT IGNORE
//! FOR UPDATE                    not for SQLite, which has one writer
//! DELETE ... SKIP LOCKED        PostgreSQL: leaves out rows that another transaction has locked; the others wait
//! ```

use parking_lot::RwLock;
use rustc_hash::FxHashMap;

/// In the order in which `decode::job` reads them.
const JOB: &str = "id, namespace, name, revision, pause, created_at, updated_at, fired_through, next_due, wake_at, \
     fires, coalesce(definition, (SELECT revisions.definition FROM revisions WHERE revisions.job = jobs.id \
     AND revisions.revision = jobs.revision)), zone_data, failures, watch";
/// In the order in which `decode::queue` reads them.
const QUEUE: &str =
    "number, namespace, name, created_at, paused_input, paused_output, queued, messages, unacked, settings";
/// In the order in which `decode::approval` reads them.
const APPROVAL: &str = "namespace, run, step_no, job, step, since, until";
/// In the order in which `decode::message` reads them.
const MESSAGE: &str = "queue, rank_no, number, head, body, wake_at";
/// In the order in which `decode::calendar` reads them.
const CALENDAR: &str = "namespace, name, version, days, description, updated_at, settled";

/// PostgreSQL: the clock at this moment.
const CLOCK: &str = "floor(extract(epoch FROM clock_timestamp()) * 1000)::int8";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
    Mysql,
}

/// A statement as a database takes it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) text: String,
    /// MySQL has no numbered parameters: which value each `?` stands for.
    pub(crate) order: Vec<usize>,
    /// MySQL: the place in the text for the condition on the keys, and their columns.
    pub(crate) keys: Option<(usize, Vec<&'static str>)>,
}

impl Dialect {
    /// The translation of a statement. It is made once.
    pub(crate) fn statement(self, sql: &'static str) -> &'static Statement {
        type Known = FxHashMap<(Dialect, usize, usize), &'static Statement>;
        static KNOWN: RwLock<Option<Known>> = RwLock::new(None);
        // A statement is a constant, so its address says which it is.
        let key = (self, sql.as_ptr().addr(), sql.len());
        if let Some(known) = KNOWN.read().as_ref().and_then(|known| known.get(&key)) {
            return known;
        }
        let statement = Box::leak(Box::new(self.translate(sql)));
        KNOWN.write().get_or_insert_default().insert(key, statement);
        statement
    }

    /// The clock of the database in milliseconds. PostgreSQL: as it was when the transaction began.
    fn now(self) -> &'static str {
        match self {
            Dialect::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
            Dialect::Postgres => "floor(extract(epoch FROM now()) * 1000)::int8",
            // Not `UNIX_TIMESTAMP`, which ends in 2038 on some servers.
            Dialect::Mysql => {
                "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000)"
            }
        }
    }

    fn translate(self, sql: &'static str) -> Statement {
        let (mut text, keys) = self.expand(sql);
        if let Some(delete) = text.strip_suffix(" SKIP LOCKED") {
            text = if self == Dialect::Postgres { skipping_locked(delete) } else { delete.to_owned() };
        }
        if self == Dialect::Mysql {
            text = without_row_comparison(&text);
            if let Some(insert) = text.strip_suffix(" ON CONFLICT DO NOTHING") {
                text = insert.replacen("INSERT", "INSERT IGNORE", 1);
            }
        }
        if self == Dialect::Sqlite
            && let Some((before, _)) = text.split_once(" FOR UPDATE")
        {
            text = before.to_owned();
        }
        if self != Dialect::Postgres {
            text = text.replace("strpos(", "instr(");
        }
        let mut statement = self.with_parameters(&text);
        if let Some(columns) = keys {
            let at = statement.text.find('{').unwrap_or(statement.text.len());
            statement.text.remove(at);
            statement.keys = Some((at, columns));
        }
        statement
    }

    /// Replaces what stands in braces. For MySQL a brace is left where the keys belong.
    fn expand(self, sql: &'static str) -> (String, Option<Vec<&'static str>>) {
        let (mut text, mut keys, mut rest) = (String::with_capacity(sql.len()), None, sql);
        while let Some((before, after)) = rest.split_once('{') {
            let (inside, after) = after.split_once('}').unwrap_or((after, ""));
            text.push_str(before);
            rest = after;
            if let Some(columns) = inside.strip_prefix("keys ") {
                let columns: Vec<(&str, &str)> =
                    columns.split(", ").filter_map(|column| column.split_once(' ')).collect();
                text.push_str(&self.of_keys(&columns));
                keys = (self == Dialect::Mysql).then(|| columns.into_iter().map(|(name, _)| name).collect());
                continue;
            }
            text.push_str(match inside {
                "job" => JOB,
                "queue" => QUEUE,
                "approval" => APPROVAL,
                "message" => MESSAGE,
                "calendar" => CALENDAR,
                "now" => self.now(),
                "clock" if self == Dialect::Postgres => CLOCK,
                "clock" => self.now(),
                either => match either.strip_prefix("mysql ").and_then(|either| either.split_once("else ")) {
                    Some((mysql, _)) if self == Dialect::Mysql => mysql.trim(),
                    Some((_, other)) => other,
                    None => panic!("a statement has an unknown part {{{either}}}"),
                },
            });
        }
        text.push_str(rest);
        (text, keys)
    }

    /// SQLite looks up one key after the other, PostgreSQL takes arrays, and MySQL the keys as text.
    fn of_keys(self, columns: &[(&str, &str)]) -> String {
        let numbered = || columns.iter().enumerate().map(|(index, column)| (index + 1, column));
        let names = || columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        match (self, columns) {
            (Dialect::Mysql, _) => "{".to_owned(),
            (Dialect::Sqlite, _) => {
                numbered().map(|(n, (name, _))| format!("{name} = ${n}")).collect::<Vec<_>>().join(" AND ")
            }
            (Dialect::Postgres, [(name, kind)]) => format!("{name} = ANY($1::{kind}[])"),
            (Dialect::Postgres, _) => {
                let arrays: Vec<String> =
                    numbered().map(|(n, (_, kind))| format!("${n}::{kind}[]")).collect();
                format!("({}) IN (SELECT * FROM unnest({}))", names(), arrays.join(", "))
            }
        }
    }

    /// Writes the parameters as the database does, and removes casts that only PostgreSQL knows.
    fn with_parameters(self, sql: &str) -> Statement {
        let (mut text, mut order, mut rest) = (String::with_capacity(sql.len()), Vec::new(), sql);
        while let Some(at) = rest.find(['$', ':']) {
            text.push_str(&rest[..at]);
            let (is_cast, is_parameter) = (rest[at..].starts_with("::"), rest[at..].starts_with('$'));
            let from = if is_cast { at + 2 } else { at + 1 };
            let is_part = |c: char| c.is_ascii_alphanumeric() || (is_cast && "[]".contains(c));
            let word = rest[from..].find(|c| !is_part(c)).map_or(rest.len(), |end| from + end);
            let parameter = rest[from..word].parse::<usize>().ok().filter(|_| is_parameter);
            match (self, parameter) {
                (Dialect::Sqlite, Some(number)) => text.push_str(&format!("?{number}")),
                (Dialect::Mysql, Some(number)) => {
                    text.push('?');
                    order.push(number - 1);
                }
                (Dialect::Sqlite | Dialect::Mysql, None) if is_cast => {}
                _ => text.push_str(&rest[at..word]),
            }
            rest = &rest[word..];
        }
        text.push_str(rest);
        Statement { text, order, keys: None }
    }
}

/// Locks the rows first: only a `SELECT` can leave out those that are locked.
fn skipping_locked(delete: &str) -> String {
    let (head, condition) = delete.split_once(" WHERE ").unwrap_or((delete, "true"));
    let table = head.trim_start_matches("DELETE FROM ");
    format!(
        "{head} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {condition} FOR UPDATE SKIP LOCKED))"
    )
}

/// Writes `(a, b) > ($1, $2)` as `(a > $1 OR (a = $1 AND b > $2))`.
fn without_row_comparison(sql: &str) -> String {
    let mut sql = sql.to_owned();
    while let Some((start, end, columns, comparison, values)) = row_comparison(&sql) {
        let [(a, b), (x, y)] = [columns, values];
        let plain = format!("({a} {comparison} {x} OR ({a} = {x} AND {b} {comparison} {y}))");
        sql.replace_range(start..end, &plain);
    }
    sql
}

/// Where a row comparison begins and ends, its columns, its operator and its values.
type RowComparison<'a> = (usize, usize, (&'a str, &'a str), &'a str, (&'a str, &'a str));

/// The first row comparison.
fn row_comparison(sql: &str) -> Option<RowComparison<'_>> {
    for operator in [") > ($", ") < ($"] {
        let Some(middle) = sql.find(operator) else { continue };
        let start = sql[..middle].rfind('(')?;
        let values = middle + operator.len() - 1;
        let end = values + sql[values..].find(')')?;
        let pair = |text: &'_ str| text.split_once(", ").map(|(a, b)| (a.len(), b.len()));
        let ((a, b), (x, y)) = (pair(&sql[start + 1..middle])?, pair(&sql[values..end])?);
        return Some((
            start,
            end + 1,
            (&sql[start + 1..start + 1 + a], &sql[middle - b..middle]),
            &operator[2..3],
            (&sql[values..values + x], &sql[end - y..end]),
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &'static str, sqlite: &str, postgres: &str, mysql: &str) {
        let text = |dialect: Dialect| dialect.statement(sql).text.as_str();
        let all = [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql].map(text);
        assert_eq!(all, [sqlite, postgres, mysql]);
    }

    #[test]
    fn parameters_and_casts_are_translated() {
        check(
            "SELECT sum(n)::int8, '00:00' FROM t WHERE ($12::text IS NULL OR a = $12) LIMIT $1",
            "SELECT sum(n), '00:00' FROM t WHERE (?12 IS NULL OR a = ?12) LIMIT ?1",
            "SELECT sum(n)::int8, '00:00' FROM t WHERE ($12::text IS NULL OR a = $12) LIMIT $1",
            "SELECT sum(n), '00:00' FROM t WHERE (? IS NULL OR a = ?) LIMIT ?",
        );
    }

    #[test]
    fn mysql_gets_the_values_in_the_order_of_its_question_marks() {
        let statement =
            Dialect::Mysql.statement("SELECT 1 FROM t WHERE s = $3 AND (a, b) > ($1, $2) LIMIT $4");
        assert_eq!(statement.text, "SELECT 1 FROM t WHERE s = ? AND (a > ? OR (a = ? AND b > ?)) LIMIT ?");
        assert_eq!(statement.order, [2, 0, 0, 1, 3]);
    }

    #[test]
    fn a_statement_may_have_parts_for_one_database() {
        check(
            "SELECT t.{mysql place else id} FROM t FOR UPDATE",
            "SELECT t.id FROM t",
            "SELECT t.id FROM t FOR UPDATE",
            "SELECT t.place FROM t FOR UPDATE",
        );
        check(
            "INSERT INTO t (a) VALUES ($1) ON CONFLICT DO NOTHING",
            "INSERT INTO t (a) VALUES (?1) ON CONFLICT DO NOTHING",
            "INSERT INTO t (a) VALUES ($1) ON CONFLICT DO NOTHING",
            "INSERT IGNORE INTO t (a) VALUES (?)",
        );
    }

    #[test]
    fn a_delete_may_leave_out_locked_rows() {
        check(
            "DELETE FROM t WHERE a = $1 SKIP LOCKED",
            "DELETE FROM t WHERE a = ?1",
            "DELETE FROM t WHERE ctid = ANY(ARRAY(SELECT ctid FROM t WHERE a = $1 FOR UPDATE SKIP LOCKED))",
            "DELETE FROM t WHERE a = ?",
        );
    }

    #[test]
    fn keys_are_written_as_each_database_takes_many_of_them() {
        check(
            "SELECT a FROM t WHERE {keys job int8, name text} AND b = 1",
            "SELECT a FROM t WHERE job = ?1 AND name = ?2 AND b = 1",
            "SELECT a FROM t WHERE (job, name) IN (SELECT * FROM unnest($1::int8[], $2::text[])) AND b = 1",
            "SELECT a FROM t WHERE  AND b = 1",
        );
        let statement = Dialect::Mysql.statement("SELECT a FROM t WHERE {keys id int8} AND b = 1");
        assert_eq!(statement.keys, Some(("SELECT a FROM t WHERE ".len(), vec!["id"])));
        assert_eq!(
            Dialect::Postgres.statement("SELECT a FROM t WHERE {keys id int8}").text,
            "SELECT a FROM t WHERE id = ANY($1::int8[])"
        );
    }
}
