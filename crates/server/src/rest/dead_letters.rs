//! Dead letters: list, replay, discard.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use punctual_core::command::{Answer, Command, Refusal, RetryRun};
use punctual_core::ids::RunId;
use punctual_wire::Text;
use punctual_wire::rest::{Again, DeadLetter, Page, Run};
use serde::Deserialize;

use super::ask::unexpected;
use super::problem::Failed;
use super::request::{Asked, IdempotencyKey, In, MaybeJson, RunAt, page_limit};
use crate::Doors;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    limit: Option<Text<usize>>,
    after: Option<Text<RunId>>,
}

pub(crate) async fn list(
    State(doors): State<Doors>,
    In(namespace): In,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<DeadLetter>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let after = listing.after.map(|after| after.0);
    let store = doors.handle.store();
    let letters = store.dead_letters(Some(&namespace), after, limit + 1).await?;
    let page = Page::cut(letters, limit, |letter| letter.run.to_string());
    let mut items = Vec::with_capacity(page.items.len());
    for letter in &page.items {
        let record = store.run(&namespace, letter.run).await?;
        items.push(DeadLetter::of(letter, record.map(|record| Run::from(&*record.run))));
    }
    Ok(Json(Page { items, next: page.next }))
}

pub(crate) async fn replay(
    State(doors): State<Doors>,
    at: RunAt,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<Again>,
) -> Result<Response, Failed> {
    let again = body.into_core(key.as_deref())?;
    // Without a key a second click is a second ask, and by then the letter is gone. With one it must get the
    // first answer again, which only the shard can give.
    if again.key.is_none() && !doors.find_run(&at).await?.dead_letter {
        return Err(Failed(Refusal::NotADeadLetter(at.run).into()));
    }
    let command = Command::RetryRun(RetryRun {
        namespace: at.namespace.clone(),
        run: at.run,
        params: again.what,
        key: again.key,
    });
    doors.ask_new_run(&at.namespace, command).await
}

pub(crate) async fn discard(State(doors): State<Doors>, at: RunAt) -> Result<StatusCode, Failed> {
    let command = Command::DiscardDeadLetter { namespace: at.namespace, run: at.run };
    match doors.handle.command(command).await? {
        Answer::Discarded => Ok(StatusCode::NO_CONTENT),
        other => Err(unexpected(&other)),
    }
}
