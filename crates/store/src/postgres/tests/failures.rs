//! What the server says, and what the caller may do about it.

use super::super::connect::{Connector, Role};
use super::super::connection::{PgConnection, request};
use super::super::failure::{Failure, Moment};
use super::*;
use crate::sql::pool::Pooled;
use crate::{Durability, Error};

async fn connection(session: Option<SessionId>, role: Role) -> PgConnection {
    let address = Server::shared().database();
    open(&address).await;
    Connector::new(&address, session, Durability::Relaxed).unwrap().connect(role).await.unwrap()
}

async fn said(connection: &mut PgConnection, state: &str) -> Failure {
    let raise = format!("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}', MESSAGE = 'no'; END $$");
    let said = connection.batch(&raise).await.unwrap_err();
    // It was all that was asked, and it is answered.
    connection.is_busy = false;
    said
}

#[tokio::test]
async fn what_the_server_says_decides_what_may_be_done() {
    let mut connection = connection(None, Role::Commit).await;
    for passing in ["40001", "40P01", "55P03", "57014", "53200", "XX000"] {
        let failure = said(&mut connection, passing).await;
        assert!(matches!(failure.judge(Moment::Writing), Error::RolledBack(_)), "{passing}");
        assert!(matches!(failure.judge(Moment::Reading), Error::Unreachable(_)), "{passing}");
    }
    assert!(matches!(said(&mut connection, "53100").await.judge(Moment::Writing), Error::Full(_)));
    for useless in ["42501", "42P01", "XX001", "XX002"] {
        assert!(
            matches!(said(&mut connection, useless).await.judge(Moment::Writing), Error::Unusable(_)),
            "{useless}"
        );
    }
    for any in ["40001", "53100", "42501", "XX001", "23505"] {
        assert!(
            matches!(said(&mut connection, any).await.judge(Moment::Committing), Error::Unknown(_)),
            "{any}"
        );
    }
    for rows in ["23505", "22021", "54000"] {
        assert!(said(&mut connection, rows).await.is_refusal(), "{rows}");
    }
    assert!(
        said(&mut connection, "25006").await.ends_connection(),
        "a standby takes no writes however often they are sent"
    );
    assert!(connection.is_clean());
}

#[tokio::test]
async fn a_connection_bears_its_node_s_name_and_gives_idle_transactions_up() {
    let settings = "SELECT current_setting('application_name'), current_setting('synchronous_commit'), \
         current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_isolation')";
    for (role, sync) in
        [(Role::Commit, "on"), (Role::Lease, "on"), (Role::Session, "off"), (Role::Log, "off")]
    {
        let mut connection = connection(Some(SessionId(0xabc)), role).await;
        let rows = connection.ask(request!(settings)).await.unwrap().rows;
        let has = |column| rows[0].get::<_, String>(column);
        assert_eq!(
            (has(0).as_str(), has(1).as_str(), has(2).as_str(), has(3).as_str()),
            ("punctual/0000000000000abc", sync, "2s", "read committed"),
            "{role:?}"
        );
    }
}

#[tokio::test]
async fn a_link_left_in_the_middle_of_something_is_not_used_again() {
    let store = open(&Server::shared().database()).await;
    let first = {
        let mut connection = store.endpoints.take().await.unwrap();
        let pid = "SELECT pg_backend_pid()";
        let first: i32 = connection.ask(request!(pid)).await.unwrap().rows[0].get(0);
        drop(connection);
        let mut connection = store.endpoints.take().await.unwrap();
        assert_eq!(
            connection.ask(request!(pid)).await.unwrap().rows[0].get::<_, i32>(0),
            first,
            "it was good, and not kept"
        );
        let sleeping = tokio::time::timeout(
            std::time::Duration::from_millis(10),
            connection.ask(request!("SELECT pg_sleep(5)")),
        );
        assert!(sleeping.await.is_err());
        first
    };
    let mut connection = store.endpoints.take().await.unwrap();
    let second: i32 = connection.ask(request!("SELECT pg_backend_pid()")).await.unwrap().rows[0].get(0);
    assert_ne!(first, second);
}
