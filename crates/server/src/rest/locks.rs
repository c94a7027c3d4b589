//! Locks: list, show, acquire, renew, release.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual_core::lock::LockKey;
use punctual_node::locks::NewLock;
use punctual_wire::rest::{AcquireLock, Code, HeldFence, Lock, Page, Problem};

use super::body;
use super::problem::Failed;
use super::request::{Asked, ByName, IdempotencyKey, In, Named, page_limit};
use crate::Endpoints;

impl From<Named> for LockKey {
    fn from(Named { namespace, name }: Named) -> LockKey {
        LockKey { namespace, name }
    }
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(listing): Asked<ByName>,
) -> Result<Json<Page<Lock>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let locks = endpoints.handle.reads().locks(&namespace, listing.after.as_ref(), limit + 1).await?;
    let page = Page::cut(locks, limit, |lock| lock.key.name.to_string());
    Ok(Json(Page { items: page.items.iter().map(|lock| Lock::from(&**lock)).collect(), next: page.next }))
}

pub(crate) async fn show(State(endpoints): State<Endpoints>, named: Named) -> Result<Json<Lock>, Failed> {
    let key = LockKey::from(named);
    let view = endpoints.handle.show_lock(key.clone()).await?;
    let view = view.ok_or_else(|| {
        let message = format!("lock `{}` in namespace `{}` is free", key.name, key.namespace);
        Problem::new(Code::NoSuchLock, message)
    })?;
    Ok(Json(Lock::from(&view)))
}

/// A client that disconnects while it waits gets nothing.
pub(crate) async fn acquire(
    State(endpoints): State<Endpoints>,
    named: Named,
    IdempotencyKey(request): IdempotencyKey,
    body::Json(body): body::Json<AcquireLock>,
) -> Result<Json<Lock>, Failed> {
    let (ttl, wait) = (body.ttl.0, body.wait());
    let (key, owner, request) = (named.into(), body.owner.into(), request.map(Into::into));
    let lock = endpoints.handle.acquire_lock(NewLock { key, owner, request, ttl, wait }).await?;
    Ok(Json(Lock::from(&*lock)))
}

pub(crate) async fn renew(
    State(endpoints): State<Endpoints>,
    named: Named,
    body::Json(body): body::Json<HeldFence>,
) -> Result<Json<Lock>, Failed> {
    let lock = endpoints.handle.renew_lock(named.into(), body.fence.0).await?;
    Ok(Json(Lock::from(&*lock)))
}

pub(crate) async fn release(
    State(endpoints): State<Endpoints>,
    named: Named,
    body::Json(body): body::Json<HeldFence>,
) -> Result<StatusCode, Failed> {
    endpoints.handle.release_lock(named.into(), body.fence.0).await?;
    Ok(StatusCode::NO_CONTENT)
}
