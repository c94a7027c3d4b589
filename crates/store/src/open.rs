//! Opening a store by its address: the scheme says which backend.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_core::ids::SessionId;

use crate::mysql::Mysql;
use crate::postgres::Postgres;
use crate::sqlite::{Options, Sqlite};
use crate::{Error, Result, ServerOptions, Sessions, Store};

const SQLITE: &str = "sqlite";
/// The addresses that this binary can open, for error messages.
const KNOWN: &str = "`sqlite:DIR`, `postgres://…` and `mysql://…`";

/// An open store, with its session store.
#[derive(Debug)]
pub struct Opened {
    pub store: Arc<dyn Store>,
    /// The default session store of a cluster. `None` means one process has this store for itself.
    pub sessions: Option<Arc<dyn Sessions>>,
}

/// Opens the store at an address, and creates it if it does not exist; `sqlite` alone means the one in `data`. Errors
/// repeat only the scheme of an address: the rest may contain a password.
pub async fn open(url: &str, data: &Path, options: Options, session: SessionId) -> Result<Opened> {
    let Options { shards, durability } = options;
    let on_server = ServerOptions { shards, durability, session: Some(session) };
    match scheme(url) {
        SQLITE => {
            let dir = folder(url).unwrap_or_else(|| data.to_owned());
            let opening = tokio::task::spawn_blocking(move || Sqlite::open(&dir, options));
            let opened = opening.await.map_err(|error| Error::Unusable(error.to_string()))?;
            Ok(Opened { store: Arc::new(opened?), sessions: None })
        }
        "postgres" | "postgresql" => {
            let store = Arc::new(Postgres::open(url, on_server).await?);
            Ok(Opened { store: Arc::clone(&store) as Arc<dyn Store>, sessions: Some(store) })
        }
        "mysql" | "mariadb" => {
            let store = Arc::new(Mysql::open(url, on_server).await?);
            Ok(Opened { store: Arc::clone(&store) as Arc<dyn Store>, sessions: Some(store) })
        }
        other => Err(unknown(other)),
    }
}

/// The folder of a SQLite store, the only kind that Punctual backs up and restores itself. For other databases, the
/// error names their own tools.
pub fn folder_of(url: &str, data: &Path) -> Result<PathBuf> {
    let other = |tools: &str| {
        Err(Error::Unusable(format!("{tools}; `punctual backup` and `restore` are for SQLite")))
    };
    match scheme(url) {
        SQLITE => Ok(folder(url).unwrap_or_else(|| data.to_owned())),
        "postgres" | "postgresql" => other(
            "a store in PostgreSQL is backed up and restored by PostgreSQL: `pg_dump --schema=punctual \
             --format=custom`, `pg_restore`, or its continuous archiving",
        ),
        "mysql" | "mariadb" => other(
            "a store on MariaDB or MySQL is backed up and restored by its own tools: `mariadb-dump \
             --single-transaction` or `mysqldump --single-transaction`, then `mariadb` or `mysql`",
        ),
        kind => Err(unknown(kind)),
    }
}

fn unknown(kind: &str) -> Error {
    Error::Unusable(format!("this binary has no store of the kind `{kind}`: it has {KNOWN}"))
}

/// The folder in a SQLite address. `None` means the address names no folder.
pub fn folder(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix(SQLITE)?.strip_prefix(':')?;
    // Other programs write `sqlite:///var/lib/x`.
    let path = path.strip_prefix("//").unwrap_or(path);
    (!path.is_empty()).then(|| path.into())
}

fn scheme(url: &str) -> &str {
    url.split_once(':').map_or(url, |(scheme, _)| scheme)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::Durability;

    const OPTIONS: Options = Options { shards: 4, durability: Durability::Relaxed };

    #[test]
    fn the_folder_of_sqlite_stands_behind_its_scheme() {
        assert_eq!(folder("sqlite:data"), Some("data".into()));
        assert_eq!(folder("sqlite:/var/lib/x"), Some("/var/lib/x".into()));
        assert_eq!(folder("sqlite:///var/lib/x"), Some("/var/lib/x".into()));
        assert_eq!(folder("sqlite"), None);
        assert_eq!(folder("sqlite:"), None);
    }

    #[tokio::test]
    async fn sqlite_is_opened_in_its_folder_or_in_that_of_the_node() {
        let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let url = format!("sqlite:{}", other.path().display());
        drop(open(&url, data.path(), OPTIONS, SessionId(1)).await.unwrap());
        assert!(data.path().read_dir().unwrap().next().is_none());
        drop(open("sqlite", data.path(), OPTIONS, SessionId(1)).await.unwrap());
        assert!(data.path().read_dir().unwrap().next().is_some());
    }

    #[test]
    fn a_store_of_another_kind_names_its_own_tools() {
        let of = |url: &str| folder_of(url, Path::new("data")).map_err(|error| error.to_string());
        assert_eq!(of("sqlite"), Ok("data".into()));
        assert_eq!(of("sqlite:other"), Ok("other".into()));
        for (url, tool) in
            [("postgres://me:tiger@db/x", "pg_dump"), ("mysql://me:tiger@db/x", "mariadb-dump")]
        {
            let refused = of(url).unwrap_err();
            assert!(refused.contains(tool) && !refused.contains("tiger"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_kind_that_is_not_built_in_is_named_and_its_password_is_not() {
        let error = open("oracle://me:tiger@db/x", Path::new("."), OPTIONS, SessionId(1))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("`oracle`") && error.contains("sqlite:DIR"), "{error}");
        assert!(!error.contains("tiger"), "{error}");
    }
}
