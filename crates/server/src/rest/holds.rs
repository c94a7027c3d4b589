//! Holds of a namespace and of everything: order, release and list.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use punctual_core::hold::{Scope, holding};
use punctual_core::name::Namespace;
use punctual_wire::rest::{Code, Hold, Page, Problem, PutHold};

use super::body::MaybeJson;
use super::problem::Failed;
use super::request::HoldAt;
use crate::Endpoints;

pub(crate) async fn put(
    State(endpoints): State<Endpoints>,
    HoldAt(scope): HoldAt,
    parts: Parts,
    MaybeJson(body): MaybeJson<PutHold>,
) -> Result<Json<Hold>, Failed> {
    let by = endpoints.name_of_caller(&parts).await?;
    let hold = body.order(scope, by, endpoints.clock.now())?;
    endpoints.handle.hold(&hold).await?;
    let shown = endpoints.holds(|scope| *scope == hold.scope).await?.pop();
    // It may have been released since.
    shown.map(Json).ok_or_else(|| no_such_hold(&hold.scope, None))
}

pub(crate) async fn release(
    State(endpoints): State<Endpoints>,
    HoldAt(scope): HoldAt,
) -> Result<StatusCode, Failed> {
    if endpoints.handle.release(&scope, endpoints.clock.now()).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let rows = endpoints.handle.reads().holds().await?;
    let wider = scope.namespace().and_then(|namespace| holding(&rows, namespace));
    Err(no_such_hold(&scope, wider.map(|wider| &wider.scope)))
}

/// The holds that cover a namespace; without one, all holds.
pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    HoldAt(scope): HoldAt,
) -> Result<Json<Page<Hold>>, Failed> {
    let wanted = scope.namespace();
    let covers = |scope: &Scope| wanted.is_none_or(|namespace: &Namespace| scope.covers(namespace));
    Ok(Json(Page { items: endpoints.holds(covers).await?, next: None }))
}

impl Endpoints {
    async fn holds(&self, wants: impl Fn(&Scope) -> bool) -> Result<Vec<Hold>, Failed> {
        let reads = self.handle.reads();
        Ok(Hold::of(&reads.holds().await?, usize::from(reads.shards()), wants))
    }
}

fn no_such_hold(scope: &Scope, wider: Option<&Scope>) -> Failed {
    let message = match wider {
        Some(wider) => format!("{scope} has no hold of its own; the hold of {wider} covers it, release that"),
        None => format!("{scope} is not on hold"),
    };
    Problem::new(Code::NoSuchHold, message).into()
}
