//! Locks.

use punctual_wire::rest::{AcquireLock, Code, HeldFence, Lock};
use punctual_wire::schema;

use super::{Operation, get, key, listing, post};

pub(super) fn locks() -> Vec<Operation> {
    const LOCK: &str = "/api/v1/namespaces/{namespace}/locks/{name}";
    vec![
        listing(get(
            "/api/v1/namespaces/{namespace}/locks",
            "list_locks",
            "List the locks of a namespace that are held, by name",
        ))
        .query_of::<schema::Name>("after")
        .answers_a_page_of::<Lock>(),
        get(LOCK, "show_lock", "Show who holds a lock, and who waits for it")
            .answers::<Lock>(200, "The lock")
            .refuses(&[Code::NoSuchLock]),
        post(LOCK, "acquire_lock", "Acquire a lock, or wait for it")
            .header("Idempotency-Key", &key())
            .takes::<AcquireLock>()
            .answers::<Lock>(200, "The lock, which the caller holds until it expires")
            .refuses(&[Code::Locked, Code::TooManyLocks, Code::TooManyWaiters]),
        post(
            "/api/v1/namespaces/{namespace}/locks/{name}/renew",
            "renew_lock",
            "Hold a lock for another `ttl` from now",
        )
        .takes::<HeldFence>()
        .answers::<Lock>(200, "The lock")
        .refuses(&[Code::OutdatedFence]),
        post("/api/v1/namespaces/{namespace}/locks/{name}/release", "release_lock", "Release a lock")
            .takes::<HeldFence>()
            .answers_nothing("The next caller gets it")
            .refuses(&[Code::OutdatedFence]),
    ]
}
