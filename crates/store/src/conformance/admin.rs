//! Values that the cluster agrees on, and access tokens.

use crate::token::{Record, Role};
use crate::{Result, Store};

use super::given::*;

fn token(name: &str, role: Role) -> Record {
    let hash = std::array::from_fn(|index| u8::try_from(index).unwrap_or(0) ^ name.as_bytes()[0]);
    Record { name: name.to_owned(), hash, role, created_at: at(0), expires_at: None }
}

/// A second offer gets the value of the first.
pub async fn the_first_offer_is_agreed_on(store: &dyn Store) -> Result<()> {
    assert_eq!(store.agree("key", b"\x00first\xff").await?, b"\x00first\xff");
    assert_eq!(store.agree("key", b"second").await?, b"\x00first\xff");
    assert_eq!(store.agree("other", b"").await?, b"");
    Ok(())
}

/// Of several offers at once one wins, and all callers get the same value.
pub async fn those_who_offer_at_once_agree(store: &dyn Store) -> Result<()> {
    let (a, b, c) =
        tokio::join!(store.agree("key", b"a"), store.agree("key", b"b"), store.agree("key", b"c"));
    let (a, b, c) = (a?, b?, c?);
    assert!(a == b && b == c, "{a:?} {b:?} {c:?}");
    Ok(())
}

/// Tokens read back as they were added, in order of name.
pub async fn tokens_read_back_as_they_were_added(store: &dyn Store) -> Result<()> {
    let expiring = Record { expires_at: Some(at(60)), ..token("b", Role::Worker) };
    let all = [token("a", Role::Admin), expiring, token("c", Role::Reader)];
    for record in [&all[2], &all[0], &all[1]] {
        assert!(store.add_token(record).await?);
    }
    assert_eq!(store.tokens().await?, all);
    Ok(())
}

/// A name is taken until its token is removed.
pub async fn a_token_has_its_name_for_itself(store: &dyn Store) -> Result<()> {
    assert!(store.add_token(&token("a", Role::Admin)).await?);
    assert!(!store.add_token(&token("a", Role::Worker)).await?);
    assert_eq!(store.tokens().await?, [token("a", Role::Admin)]);
    assert!(store.remove_token("a").await? && !store.remove_token("a").await?);
    assert!(store.add_token(&token("a", Role::Worker)).await?);
    Ok(())
}
