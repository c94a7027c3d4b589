//! Opens a store: connects, checks the server, migrates the tables, and sets up the connections.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::{Opts, OptsBuilder};
use punctual_core::ids::SessionId;

use super::connection::{MysqlConnection, Settings, Use};
use super::failure::{Failure, Moment};
use super::leases::{LOCK_HOLDERS, lock_name};
use super::{Mysql, schema};
use crate::address::Address;
use crate::sql::backend::Facts;
use crate::sql::pool::Pool;
use crate::sql::value::Row;
use crate::{Durability, Error, Result, ServerOptions};

/// Connections for the endpoints: several, because one may be busy with a long listing.
const ENDPOINT_CONNECTIONS: usize = 4;
/// Prepared statements that a connection keeps: more than there are.
const STATEMENTS_MAX: usize = 128;
/// After this long without traffic, TCP keepalive checks the connection.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// The largest row, in hex, has to fit into a packet.
const PACKET_MIN: i64 = 16 * 1024 * 1024;
const MARIADB_MIN: (u32, u32) = (10, 6);
const MYSQL_MIN: (u32, u32) = (8, 0);

impl Mysql {
    /// Opens the store at `mysql://user:password@host:port/database`, and makes its tables if they do not exist.
    pub async fn open(url: &str, options: ServerOptions) -> Result<Mysql> {
        let Address { url, shards, durability } = Address::parse(url, options)?;
        let (opts, database) = parse_address(&url, options.session)?;
        let pool = |what_for, connections| {
            Pool::new(Settings { opts: opts.clone(), what_for, lock: None }, connections)
        };
        let locking = |what_for, holder| {
            let lock = options.session.map(|session| lock_name(&database, session, holder));
            Pool::new(Settings { opts: opts.clone(), what_for, lock }, 1)
        };
        let changes = locking(Use::Write, LOCK_HOLDERS[2]);
        let made_with = set_up(&changes, &database, shards, durability).await?;
        Ok(Mysql {
            facts: Facts::new(made_with, shards, durability),
            commits: [locking(Use::Commit, LOCK_HOLDERS[0]), locking(Use::Commit, LOCK_HOLDERS[1])],
            leader: pool(Use::Read, 1),
            endpoints: pool(Use::Read, ENDPOINT_CONNECTIONS),
            sessions: pool(Use::Write, 1),
            pruner: locking(Use::Write, LOCK_HOLDERS[3]),
            logs: pool(Use::Write, 1),
            changes,
            definitions: Arc::default(),
            database,
        })
    }
}

async fn set_up(
    pool: &Pool<MysqlConnection>,
    database: &str,
    shards: u16,
    durability: Durability,
) -> Result<u16> {
    let mut connection = pool.take().await.map_err(explain)?;
    let checked = check(&mut connection, durability).await;
    let migrated = match checked {
        Ok(()) => schema::migrate(&mut connection, database, shards).await,
        Err(failure) => Err(failure),
    };
    connection.finish(migrated, Moment::Connecting).await.map_err(explain)
}

fn explain(error: Error) -> Error {
    match error {
        Error::Unreachable(why) => Error::Unreachable(format!("the database cannot be reached: {why}")),
        other => other,
    }
}

/// Parses an address into connection options and the name of the database.
fn parse_address(url: &str, session: Option<SessionId>) -> Result<(Opts, String)> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::Unusable(format!(
            "the address of the store is wrong ({why}): write mysql://user:password@host:3306/database"
        ))
    };
    let url = match url.strip_prefix("mariadb://") {
        Some(rest) => format!("mysql://{rest}"),
        None => url.to_owned(),
    };
    let opts = Opts::from_url(&url).map_err(|error| wrong(&error))?;
    let database = opts.db_name().filter(|name| !name.is_empty());
    let database = database.ok_or_else(|| wrong(&"it names no database"))?.to_owned();
    let node = session.map_or_else(|| "punctual".to_owned(), |session| format!("punctual {session}"));
    let opts = OptsBuilder::from_opts(opts)
        // Count the rows that were found, whether or not they change.
        .client_found_rows(true)
        // Always connect to the address, never to a local socket: it may be a proxy.
        .prefer_socket(false)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEPALIVE))
        .stmt_cache_size(STATEMENTS_MAX)
        .connect_attribute("program_name", node);
    Ok((opts.into(), database))
}

async fn check(connection: &mut MysqlConnection, durability: Durability) -> Result<(), Failure> {
    let version = connection.row("SELECT VERSION()", ()).await?;
    let version = version.map_or(Ok(String::new()), |row| (&row as &dyn Row).text(0).map(str::to_owned))?;
    check_version(&version)?;
    let packet = number(connection, "max_allowed_packet").await?.unwrap_or(0);
    if packet < PACKET_MIN {
        let why =
            format!("max_allowed_packet is {packet}, a row may need {PACKET_MIN}: raise it on the server");
        return Err(Error::Unusable(why).into());
    }
    match durability {
        Durability::Full => check_durability(connection).await,
        Durability::Relaxed => Ok(()),
    }
}

fn check_version(version: &str) -> Result<()> {
    // Some servers prefix their version with this one, for old replicas.
    let own = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut parts = own.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        return Err(Error::Unusable(format!(
            "the database says it is version `{version}`, which is unknown"
        )));
    };
    let (name, min) =
        if version.contains("MariaDB") { ("MariaDB", MARIADB_MIN) } else { ("MySQL", MYSQL_MIN) };
    if (major, minor) < min {
        let why = format!("{name} {major}.{minor} is too old for the store: {}.{} is needed", min.0, min.1);
        return Err(Error::Unusable(why));
    }
    Ok(())
}

/// Checks the settings that put a commit on the disk before it returns.
async fn check_durability(connection: &mut MysqlConnection) -> Result<(), Failure> {
    let flush = number(connection, "innodb_flush_log_at_trx_commit").await?;
    // MariaDB's 3 syncs even more often than 1.
    if !matches!(flush, Some(1 | 3)) {
        return Err(weak("innodb_flush_log_at_trx_commit", flush, "1").into());
    }
    let doublewrite = number(connection, "innodb_doublewrite").await?;
    if doublewrite == Some(0) {
        return Err(weak("innodb_doublewrite", doublewrite, "ON").into());
    }
    if number(connection, "log_bin").await? == Some(1) {
        let sync = number(connection, "sync_binlog").await?;
        if sync != Some(1) {
            return Err(weak("sync_binlog", sync, "1").into());
        }
    }
    Ok(())
}

fn weak(setting: &str, actual: Option<i64>, needed: &str) -> Error {
    let actual = actual.map_or_else(|| "unknown".to_owned(), |actual| actual.to_string());
    Error::Unusable(format!(
        "the store would not be durable: the server has {setting} = {actual}, {needed} is needed. Change it there, or add \
         `durability=relaxed` to the address if losing the last commits is acceptable"
    ))
}

/// A setting of the server; ON and OFF are 1 and 0.
async fn number(connection: &mut MysqlConnection, setting: &str) -> Result<Option<i64>, Failure> {
    let found = connection.text(format!("SHOW GLOBAL VARIABLES LIKE '{setting}'").into_bytes()).await?;
    let Some(row) = found.first() else { return Ok(None) };
    Ok(match (row as &dyn Row).text(1)? {
        "OFF" => Some(0),
        text => Some(text.parse().unwrap_or(1)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused() {
        for good in
            ["10.11.19-MariaDB-0+deb12u1", "5.5.5-10.6.3-MariaDB", "11.4.2-MariaDB", "8.0.36", "8.4.0-log"]
        {
            check_version(good).unwrap();
        }
        for (bad, needed) in
            [("10.5.1-MariaDB", "10.6"), ("5.7.44-log", "8.0"), ("5.5.5-10.3.1-MariaDB", "10.6")]
        {
            let refused = check_version(bad).unwrap_err().to_string();
            assert!(refused.contains(&format!("{needed} is needed")), "{refused}");
        }
    }

    #[test]
    fn both_names_of_the_protocol_are_understood() {
        for url in ["mysql://u:p@h:3307/d", "mariadb://u:p@h:3307/d"] {
            let (opts, database) = parse_address(url, None).unwrap();
            assert_eq!((opts.ip_or_hostname(), opts.tcp_port(), database.as_str()), ("h", 3307, "d"));
        }
        for url in ["mysql://h", "postgres://h/d", "mysql://h/d?no_such=1"] {
            let refused = parse_address(url, None).unwrap_err().to_string();
            assert!(refused.contains("mysql://user:password@host"), "{refused}");
        }
    }
}
