//! Locks over REST.

use punctual_wire::rest::Lock;

use super::*;

const LOCKS: &str = "/api/v1/namespaces/default/locks";

impl Scene {
    async fn acquire(&self, name: &str, owner: &str) -> Lock {
        let body = json!({ "ttl": "1m", "owner": owner });
        self.post(&format!("{LOCKS}/{name}"), body).await.read(200)
    }

    /// `action` is `renew` or `release`.
    async fn act_on_lock(&self, name: &str, action: &str, fence: &str) -> Answer {
        self.post(&format!("{LOCKS}/{name}/{action}"), json!({ "fence": fence })).await
    }
}

#[tokio::test]
async fn a_lock_is_acquired_shown_renewed_and_released() {
    let scene = Scene::new().await;
    let lock = scene.acquire("backup", "host-1").await;
    assert_eq!((lock.name.as_str(), lock.owner.as_str(), lock.waiting.as_ref()), ("backup", "host-1", None));
    let fence = lock.fence.to_string();
    let shown: Lock = scene.get(&format!("{LOCKS}/backup")).await.read(200);
    assert_eq!((shown.fence, shown.waiting), (lock.fence, Some(Vec::new())));
    let renewed: Lock = scene.act_on_lock("backup", "renew", &fence).await.read(200);
    assert_eq!((renewed.fence, renewed.since), (lock.fence, lock.since));
    assert!(renewed.expires_at.0 >= lock.expires_at.0);

    let held: Problem =
        scene.post(&format!("{LOCKS}/backup"), json!({ "ttl": "1m", "owner": "host-2" })).await.read(409);
    assert_eq!(held.code.as_str(), "locked");
    let expected =
        format!("lock `backup` is held by `host-1` until {}, unless it is renewed", renewed.expires_at);
    assert_eq!(held.message, expected, "the owner, and when it ends");

    assert_eq!(scene.act_on_lock("backup", "release", &fence).await.status, 204);
    for action in ["renew", "release"] {
        let gone: Problem = scene.act_on_lock("backup", action, &fence).await.read(409);
        assert_eq!(gone.code.as_str(), "outdated_fence");
    }
    let free: Problem = scene.get(&format!("{LOCKS}/backup")).await.read(404);
    assert_eq!(free.code.as_str(), "no_such_lock");
    assert!(scene.acquire("backup", "host-2").await.fence > lock.fence, "fences grow");
}

#[tokio::test]
async fn a_waiting_caller_gets_the_lock_when_it_is_released() {
    let scene = Scene::new().await;
    let first = scene.acquire("backup", "host-1").await;
    let wait = json!({ "ttl": "1m", "wait": "30s", "owner": "host-2" });
    let path = format!("{LOCKS}/backup");
    let (second, ()) = tokio::join!(scene.post(&path, wait), async {
        loop {
            let shown: Lock = scene.get(&path).await.read(200);
            if shown.waiting.is_some_and(|waiting| waiting.len() == 1) {
                break;
            }
            tokio::task::yield_now().await;
        }
        scene.act_on_lock("backup", "release", &first.fence.to_string()).await;
    });
    let second: Lock = second.read(200);
    assert_eq!(second.owner, "host-2");
}

/// Its connection is gone, so it does not get the lock either.
#[tokio::test]
async fn a_caller_that_hangs_up_waits_no_more() {
    let scene = Scene::new().await;
    let first = scene.acquire("backup", "host-1").await;
    let path = format!("{LOCKS}/backup");
    let wait = json!({ "ttl": "1m", "wait": "30s", "owner": "host-2" });
    let waiting = async |count: usize| loop {
        let shown: Lock = scene.get(&path).await.read(200);
        if shown.waiting.is_some_and(|waiting| waiting.len() == count) {
            break;
        }
        tokio::task::yield_now().await;
    };
    tokio::select! {
        answer = scene.post(&path, wait) => panic!("it is held: {answer:?}"),
        () = waiting(1) => {}
    }
    waiting(0).await;
    scene.act_on_lock("backup", "release", &first.fence.to_string()).await;
    scene.acquire("backup", "host-3").await;
}

#[tokio::test]
async fn a_key_gets_the_same_lock_again() {
    let scene = Scene::new().await;
    let body = json!({ "ttl": "1m", "owner": "host-1" });
    let mut fences = Vec::new();
    for key in ["a", "a", "b"] {
        let request = Request::post(format!("{LOCKS}/backup")).header("idempotency-key", key);
        let answer = scene.send(with_json(request, &body)).await;
        fences.push((answer.status == 200).then(|| answer.read::<Lock>(200).fence));
    }
    assert!(fences[0].is_some());
    assert_eq!((fences[0], None), (fences[1], fences[2]), "with another key it is another caller");
}

#[tokio::test]
async fn locks_are_listed_by_name() {
    let scene = Scene::new().await;
    for name in ["c", "a", "b"] {
        scene.acquire(name, "host").await;
    }
    let page: Page<Lock> = scene.get(&format!("{LOCKS}?limit=2")).await.read(200);
    let names: Vec<&str> = page.items.iter().map(|lock| lock.name.as_str()).collect();
    assert_eq!((names, page.next.as_deref()), (vec!["a", "b"], Some("b")));
}

#[tokio::test]
async fn an_acquire_that_cannot_be_names_the_field() {
    let scene = Scene::new().await;
    let long = "x".repeat(257);
    for (body, field) in [
        (json!({ "ttl": "25h", "owner": "a" }), "ttl"),
        (json!({ "ttl": "0s", "owner": "a" }), "ttl"),
        (json!({ "ttl": "1m", "wait": "31s", "owner": "a" }), "wait"),
        (json!({ "ttl": "1m", "owner": "" }), "owner"),
        (json!({ "ttl": "1m", "owner": long }), "owner"),
        (json!({ "ttl": "1m" }), "owner"),
        (json!({ "owner": "a" }), "ttl"),
    ] {
        let problem: Problem = scene.post(&format!("{LOCKS}/backup"), body.clone()).await.read(422);
        assert_eq!(problem.field.as_deref(), Some(field), "{body}");
    }
    let problem: Problem =
        scene.post(&format!("{LOCKS}/a%20b"), json!({ "ttl": "1m", "owner": "a" })).await.read(400);
    assert_eq!(problem.field.as_deref(), Some("name"));
    let page: Page<Lock> = scene.get(LOCKS).await.read(200);
    assert_eq!(page.items, [], "nothing happened");
}
