//! Messages by id: show, acknowledge, return to the queue.

use axum::Json;
use axum::extract::State;
use punctual_core::queue::{Ask, QueueRefusal, Said};
use punctual_wire::rest::{ActOnMessages, ActedOnMessages, Code, Message, Postponed, Problem};
use punctual_wire::text::Span;

use super::body;
use super::problem::Failed;
use super::queues::unexpected;
use super::request::{In, MessageAt};
use crate::Endpoints;

pub(crate) async fn show(State(endpoints): State<Endpoints>, at: MessageAt) -> Result<Json<Message>, Failed> {
    let id = at.message.ok_or_else(|| no_such_message(&at))?;
    match endpoints.handle.queue(Ask::Show { namespace: at.namespace.clone(), id }).await? {
        Said::Shown(view) => {
            let view = view.ok_or_else(|| no_such_message(&at))?;
            Ok(Json(Message::of(&view, &endpoints.leader_of(id.shard()))))
        }
        said => Err(unexpected(said)),
    }
}

/// Unknown ids are ignored and not counted, so a request can be repeated safely.
pub(crate) async fn act(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    body::Json(body): body::Json<ActOnMessages>,
) -> Result<Json<ActedOnMessages>, Failed> {
    let (verb, ids) = body.into_core()?;
    let done = if ids.is_empty() { 0 } else { endpoints.handle.act(&namespace, verb, ids).await? };
    Ok(Json(ActedOnMessages { done }))
}

pub(crate) async fn working(
    State(endpoints): State<Endpoints>,
    at: MessageAt,
) -> Result<Json<Postponed>, Failed> {
    let id = at.message.ok_or_else(|| no_such_message(&at))?;
    match endpoints.handle.queue(Ask::Working { namespace: at.namespace.clone(), id }).await? {
        Said::Postponed(postponed) => Ok(Json(Postponed { postponed: Span(postponed) })),
        Said::Refused(QueueRefusal::NoSuchMessage) => Err(no_such_message(&at)),
        said => Err(unexpected(said)),
    }
}

fn no_such_message(at: &MessageAt) -> Failed {
    let message = format!("no message `{}` in namespace `{}`", at.text, at.namespace);
    Problem::new(Code::NoSuchMessage, message).into()
}
