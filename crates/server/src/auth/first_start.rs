//! The first tokens of a server.
//!
//! A store without any token gets two: one for the administrator, one for workers. Token names are unique, so
//! nodes that start at the same time on one store cannot both make one; each prints only the token it made. A
//! scripted install brings its own token instead. It is written at every start, so it is also the way back in
//! for an administrator who lost theirs.

use punctual_core::Timestamp;
use punctual_failpoint::{Point, hit};
use punctual_store::Tokens;
use punctual_store::token::{Record, Role};

use super::Secret;

const ADMIN: &str = "admin";
const WORKER: &str = "worker";
/// The name of the token that came from a file.
const BOOTSTRAP: &str = "bootstrap";
/// How often `put` is tried: nodes that write their tokens at the same time can see each other's half-done change.
const TRIES: usize = 10;

/// The tokens that were made, to be printed once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bootstrap {
    pub admin: Option<Secret>,
    pub worker: Option<Secret>,
    /// When another node or an earlier start made the administrator's token. `None` means made now, chosen,
    /// or removed.
    pub made_before: Option<Timestamp>,
}

/// Makes sure that a token exists; `chosen` is the administrator's token if they brought one.
pub async fn begin(
    store: &dyn Tokens,
    chosen: Option<&Secret>,
    now: Timestamp,
) -> punctual_store::Result<Bootstrap> {
    match chosen {
        Some(secret) => put(store, secret, now).await.map(|()| Bootstrap::default()),
        None if store.tokens().await?.is_empty() => {
            hit(Point::FirstStartBegun);
            let admin = make(store, ADMIN, Role::Admin, now).await?;
            hit(Point::FirstStartHalf);
            let worker = make(store, WORKER, Role::Worker, now).await?;
            hit(Point::FirstStartMade);
            let made_before = if admin.is_none() { made_at(store).await? } else { None };
            Ok(Bootstrap { admin, worker, made_before })
        }
        None => Ok(Bootstrap { made_before: made_at(store).await?, ..Bootstrap::default() }),
    }
}

/// When the administrator's token of the first start was made.
async fn made_at(store: &dyn Tokens) -> punctual_store::Result<Option<Timestamp>> {
    let tokens = store.tokens().await?;
    Ok(tokens.into_iter().find(|token| token.name == ADMIN).map(|token| token.created_at))
}

/// Makes a token. `None` means that another node made it first and prints it.
async fn make(
    store: &dyn Tokens,
    name: &str,
    role: Role,
    now: Timestamp,
) -> punctual_store::Result<Option<Secret>> {
    let secret = Secret::new().map_err(|error| {
        punctual_store::Error::Unusable(format!("the system gives no randomness for a token: {error}"))
    })?;
    let record = record(name, role, &secret, now);
    Ok(store.add_token(&record).await?.then_some(secret))
}

async fn put(store: &dyn Tokens, secret: &Secret, now: Timestamp) -> punctual_store::Result<()> {
    let record = record(BOOTSTRAP, Role::Admin, secret, now);
    for _ in 0..TRIES {
        let there = store.tokens().await?.into_iter().find(|token| token.name == BOOTSTRAP);
        match there {
            Some(there) if there.hash == record.hash => return Ok(()),
            Some(_) => drop(store.remove_token(BOOTSTRAP).await?),
            None if store.add_token(&record).await? => return Ok(()),
            None => {}
        }
    }
    let message = format!("another node keeps changing the token `{BOOTSTRAP}`: give all of them one file");
    Err(punctual_store::Error::Unusable(message))
}

fn record(name: &str, role: Role, secret: &Secret, now: Timestamp) -> Record {
    Record { name: name.to_owned(), hash: secret.hash(), role, created_at: now, expires_at: None }
}

#[cfg(test)]
mod tests {
    use punctual_store::memory::Memory;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    async fn names(store: &Memory) -> Vec<(String, Role)> {
        store.tokens().await.unwrap().into_iter().map(|token| (token.name, token.role)).collect()
    }

    #[tokio::test]
    async fn three_first_starts_at_once_make_one_set_of_tokens() {
        let store = Memory::new(1);
        let all = tokio::join!(begin(&store, None, NOW), begin(&store, None, NOW), begin(&store, None, NOW));
        let made = [all.0.unwrap(), all.1.unwrap(), all.2.unwrap()];
        let admins: Vec<_> = made.iter().filter_map(|made| made.admin.as_ref()).collect();
        let workers: Vec<_> = made.iter().filter_map(|made| made.worker.as_ref()).collect();
        assert_eq!((admins.len(), workers.len()), (1, 1), "each is told once");
        let others = made.iter().filter(|made| made.made_before == Some(NOW)).count();
        assert_eq!(others, 2, "the other nodes know that the token was made");
        let kept = store.tokens().await.unwrap();
        assert_eq!(
            kept.iter().map(|token| token.hash).collect::<Vec<_>>(),
            [admins[0].hash(), workers[0].hash()]
        );
    }

    #[tokio::test]
    async fn a_second_start_makes_nothing_even_if_one_was_removed() {
        let store = Memory::new(1);
        assert!(begin(&store, None, NOW).await.unwrap().admin.is_some());
        assert!(store.remove_token(WORKER).await.unwrap());
        let again = begin(&store, None, NOW).await.unwrap();
        assert_eq!((again.admin, again.worker, again.made_before), (None, None, Some(NOW)));
        assert_eq!(names(&store).await, [("admin".to_owned(), Role::Admin)]);
    }

    #[tokio::test]
    async fn a_token_that_was_brought_is_put_in_and_replaced_by_a_newer_one() {
        let store = Memory::new(1);
        let (first, second) = (Secret::new().unwrap(), Secret::new().unwrap());
        for secret in [&first, &first, &second] {
            assert_eq!(begin(&store, Some(secret), NOW).await.unwrap(), Bootstrap::default());
        }
        let kept = store.tokens().await.unwrap();
        assert_eq!(kept.iter().map(|token| token.hash).collect::<Vec<_>>(), [second.hash()]);
        assert_eq!(names(&store).await, [("bootstrap".to_owned(), Role::Admin)]);
    }
}
