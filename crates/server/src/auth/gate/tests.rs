//! Who may what, and for how long.

use punctual_core::time::ManualClock;
use punctual_store::memory::Memory;
use punctual_store::token::Record;

use super::*;
use crate::auth::Secret;
use crate::limits::FAILURES_MAX;

const RIGHTS: [Right; 6] = [Right::Anyone, Right::Read, Right::Run, Right::Edit, Right::Admin, Right::Worker];

struct Scene {
    store: Arc<Memory>,
    clock: Arc<ManualClock>,
    gate: Gate,
}

impl Scene {
    fn new() -> Scene {
        let (store, clock) = (Arc::new(Memory::new(1)), Arc::new(ManualClock::at(Timestamp::MIN)));
        let gate = Gate::guarded(store.clone(), clock.clone(), false);
        Scene { store, clock, gate }
    }

    async fn add(&self, name: &str, role: Role, expires_at: Option<Timestamp>) -> Secret {
        let secret = Secret::new().unwrap();
        let record = Record {
            name: name.to_owned(),
            hash: secret.hash(),
            role,
            created_at: Timestamp::MIN,
            expires_at,
        };
        assert!(self.store.add_token(&record).await.unwrap());
        secret
    }
}

fn with(secret: &Secret) -> Caller<'_> {
    Caller { bearer: Some(secret.as_str()), peer: None }
}

fn from(bearer: &str, last: u8) -> Caller<'_> {
    let peer = Peer { address: [192, 0, 2, last].into(), certified: false };
    Caller { bearer: Some(bearer), peer: Some(peer) }
}

#[tokio::test]
async fn every_role_may_exactly_what_is_its_own() {
    let scene = Scene::new();
    for (role, may) in [
        (Role::Admin, [true, true, true, true, true, false]),
        (Role::Reader, [true, true, false, false, false, false]),
        (Role::Worker, [true, false, false, false, false, true]),
    ] {
        let secret = scene.add(role.as_str(), role, None).await;
        scene.gate.changed();
        for (right, may) in RIGHTS.into_iter().zip(may) {
            let checked = scene.gate.check(&with(&secret), right).await;
            assert_eq!(checked.is_ok(), may, "{role:?} {right:?}");
            if let Err(refused) = checked {
                assert!(matches!(refused, Refused::Forbidden { has, .. } if has == role), "{refused:?}");
            }
        }
    }
    let stranger = Caller { bearer: None, peer: None };
    for right in RIGHTS {
        let expected = if right == Right::Anyone { Ok(()) } else { Err(Refused::NoToken) };
        assert_eq!(scene.gate.check(&stranger, right).await, expected);
    }
}

#[tokio::test]
async fn an_expired_token_is_refused_from_the_moment_it_names() {
    let scene = Scene::new();
    let secret = scene.add("brief", Role::Admin, Some(Timestamp::from_millis(1_000))).await;
    scene.clock.set(Timestamp::from_millis(999));
    assert_eq!(scene.gate.check(&with(&secret), Right::Read).await, Ok(()));
    scene.clock.set(Timestamp::from_millis(1_000));
    assert_eq!(scene.gate.check(&with(&secret), Right::Read).await, Err(Refused::Expired));
    assert_eq!(scene.gate.last_used(&secret.hash()), Some(Timestamp::from_millis(999)));
}

#[tokio::test]
async fn a_token_removed_through_another_node_stops_working_within_five_seconds() {
    let scene = Scene::new();
    let secret = scene.add("gone", Role::Admin, None).await;
    assert_eq!(scene.gate.check(&with(&secret), Right::Read).await, Ok(()));
    let removed = Instant::now();
    assert!(scene.store.remove_token("gone").await.unwrap());
    while scene.gate.check(&with(&secret), Right::Read).await.is_ok() {
        assert!(removed.elapsed() < Duration::from_secs(5), "it still works");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_token_that_was_just_removed_or_added_here_is_so_at_once() {
    let scene = Scene::new();
    let first = scene.add("first", Role::Admin, None).await;
    assert_eq!(scene.gate.check(&with(&first), Right::Read).await, Ok(()));
    let second = scene.add("second", Role::Admin, None).await;
    assert!(scene.store.remove_token("first").await.unwrap());
    scene.gate.changed();
    assert_eq!(scene.gate.check(&with(&first), Right::Read).await, Err(Refused::Unknown));
    assert_eq!(scene.gate.check(&with(&second), Right::Read).await, Ok(()));
}

#[tokio::test]
async fn a_token_added_through_another_node_works_at_once() {
    let scene = Scene::new();
    let first = scene.add("first", Role::Admin, None).await;
    assert_eq!(scene.gate.check(&with(&first), Right::Read).await, Ok(()));
    let second = scene.add("second", Role::Admin, None).await;
    assert_eq!(scene.gate.check(&with(&second), Right::Read).await, Ok(()));
}

#[tokio::test]
async fn who_tries_too_many_wrong_tokens_has_to_wait_and_nobody_else_does() {
    let scene = Scene::new();
    let good = scene.add("good", Role::Admin, None).await;
    for _ in 0..FAILURES_MAX {
        assert_eq!(scene.gate.check(&from("wrong", 1), Right::Read).await, Err(Refused::Unknown));
    }
    let refused = scene.gate.check(&from("wrong", 1), Right::Read).await;
    assert!(matches!(refused, Err(Refused::TooMany { .. })), "{refused:?}");
    assert_eq!(scene.gate.check(&from("wrong", 2), Right::Read).await, Err(Refused::Unknown));
    // Many people may share an address with someone who tries.
    assert_eq!(scene.gate.check(&from(good.as_str(), 1), Right::Read).await, Ok(()));
}

#[tokio::test]
async fn where_workers_have_to_show_a_certificate_a_token_alone_is_not_enough() {
    let scene = Scene::new();
    let gate = Gate::guarded(scene.store.clone(), scene.clock.clone(), true);
    let secret = scene.add("w", Role::Worker, None).await;
    let admin = scene.add("a", Role::Admin, None).await;
    assert_eq!(gate.check(&from(secret.as_str(), 1), Right::Worker).await, Err(Refused::NoCertificate));
    let peer = Peer { address: [192, 0, 2, 1].into(), certified: true };
    let certified = Caller { bearer: Some(secret.as_str()), peer: Some(peer) };
    assert_eq!(gate.check(&certified, Right::Worker).await, Ok(()));
    let nobody = Caller { bearer: None, peer: Some(peer) };
    assert_eq!(gate.check(&nobody, Right::Worker).await, Err(Refused::NoToken));
    assert_eq!(gate.check(&from(admin.as_str(), 1), Right::Edit).await, Ok(()), "people need none");
}

#[test]
fn a_token_stands_in_one_header_and_in_one_form() {
    let bearer = |value: &'static str| {
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
        Caller::of(&headers, &Extensions::new()).bearer.map(str::to_owned)
    };
    assert_eq!(bearer("Bearer pct_1"), Some("pct_1".to_owned()));
    assert_eq!(bearer("bearer  pct_1"), Some("pct_1".to_owned()));
    assert_eq!(bearer("Basic cGN0XzE="), None);
    assert_eq!(bearer("pct_1"), None);
}
