//! Who the caller is, and what this caller may do.

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use punctual_store::token::Role;
use punctual_wire::rest::{self, Auth, Whoami};

use crate::Endpoints;
use crate::auth::{Caller, has_right};
use crate::routes::Right;

pub(crate) async fn show(State(endpoints): State<Endpoints>, request: Parts) -> Response {
    let caller = Caller::of(&request.headers, &request.extensions);
    let known = match endpoints.gate.who(&caller).await {
        Ok(known) => known,
        Err(refused) => return refused.into_response(),
    };
    let auth = if known.is_some() { Auth::Token } else { Auth::None };
    // Without tokens every caller may do what an administrator may.
    let (token, role) = known.map_or((None, Role::Admin), |(name, role)| (Some(name), role));
    let rights = Right::OF_ROLES.into_iter().filter(|right| has_right(role, *right));
    let whoami = Whoami {
        token,
        role: role_of(role),
        rights: rights.map(|right| right.as_str().to_owned()).collect(),
        auth,
        node: endpoints.node.as_ref().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Json(whoami).into_response()
}

fn role_of(role: Role) -> rest::Role {
    match role {
        Role::Admin => rest::Role::Admin,
        Role::Reader => rest::Role::Reader,
        Role::Worker => rest::Role::Worker,
    }
}
