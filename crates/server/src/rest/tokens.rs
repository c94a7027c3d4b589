//! Tokens: add, list, remove. Only the answer to `add` contains the text of a token.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual_store::token::{Record, Role};
use punctual_wire::Text;
use punctual_wire::rest::{self, AddToken, Code, NewToken, Page, Problem, Token};
use tracing::{error, info};

use super::body;
use super::problem::{Failed, internal};
use super::request::{Asked, ByName, TokenAt, page_limit};
use crate::Endpoints;
use crate::auth::Secret;
use crate::limits::TOKENS_MAX;

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    Asked(listing): Asked<ByName>,
) -> Result<Json<Page<Token>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let after = listing.after.map(|name| name.to_string());
    let records = endpoints.handle.tokens().tokens().await?.into_iter();
    let records = records.filter(|record| after.as_ref().is_none_or(|after| record.name > *after));
    let page = Page::cut(records.take(limit + 1).collect(), limit, |record: &Record| record.name.clone());
    let items = page.items.iter().map(|record| Token {
        name: record.name.clone(),
        role: said(record.role),
        created_at: Text(record.created_at),
        expires_at: record.expires_at.map(Text),
        last_used_at: endpoints.gate.last_used(&record.hash).map(Text),
    });
    Ok(Json(Page { items: items.collect(), next: page.next }))
}

pub(crate) async fn add(
    State(endpoints): State<Endpoints>,
    body::Json(asked): body::Json<AddToken>,
) -> Result<(StatusCode, Json<NewToken>), Failed> {
    let store = endpoints.handle.tokens();
    // Two concurrent requests may exceed the limit by one; that does no harm.
    if store.tokens().await?.len() >= TOKENS_MAX {
        return Err(Problem::new(
            Code::TooManyTokens,
            format!("the server has {TOKENS_MAX} tokens, the most it allows; remove unused ones"),
        )
        .into());
    }
    let secret = Secret::new().map_err(|error| {
        error!(%error, "the system gives no randomness");
        internal()
    })?;
    let now = endpoints.clock.now();
    let record = Record {
        name: asked.name.to_string(),
        hash: secret.hash(),
        role: meant(asked.role),
        created_at: now,
        expires_at: asked.expires_in.map(|span| now + span.0),
    };
    if !store.add_token(&record).await? {
        return Err(Problem::new(
            Code::TokenExists,
            format!("a token `{}` exists already; choose another name", record.name),
        )
        .into());
    }
    endpoints.gate.changed();
    info!(name = record.name, role = record.role.as_str(), "a token was added");
    let token = NewToken {
        name: record.name,
        role: asked.role,
        created_at: Text(record.created_at),
        expires_at: record.expires_at.map(Text),
        token: secret.as_str().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(token)))
}

pub(crate) async fn remove(
    State(endpoints): State<Endpoints>,
    TokenAt(name): TokenAt,
) -> Result<StatusCode, Failed> {
    if !endpoints.handle.tokens().remove_token(name.as_str()).await? {
        return Err(Problem::new(Code::NoSuchToken, format!("no token `{name}`")).into());
    }
    endpoints.gate.changed();
    info!(%name, "a token was removed");
    Ok(StatusCode::NO_CONTENT)
}

fn said(role: Role) -> rest::Role {
    match role {
        Role::Admin => rest::Role::Admin,
        Role::Reader => rest::Role::Reader,
        Role::Worker => rest::Role::Worker,
    }
}

fn meant(role: rest::Role) -> Role {
    match role {
        rest::Role::Admin => Role::Admin,
        rest::Role::Reader => Role::Reader,
        rest::Role::Worker => Role::Worker,
    }
}
