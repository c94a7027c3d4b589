//! Incidents: list, show, acknowledge, silence. And the channels that notifications go to.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use punctual_core::alert::{ActOnIncident, Incident as Stored, IncidentAct};
use punctual_core::command::{Answer, Command};
use punctual_core::ids::{IncidentId, RunId};
use punctual_core::job::{Definition, Invalid};
use punctual_core::name::Name;
use punctual_core::workflow::Workflow;
use punctual_node::AlertChannels;
use punctual_store::IncidentFilter;
use punctual_wire::rest::{Channel, Code, Comment, Incident, Page, Problem, SilenceIncident};
use punctual_wire::{Text, error};
use serde::Deserialize;

use super::ask::unexpected;
use super::body::{self, MaybeJson};
use super::problem::Failed;
use super::request::{Asked, ChannelAt, In, RunAt, page_limit};
use crate::Endpoints;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    job: Option<Name>,
    /// Only incidents that are open. The default is all.
    open: Option<Text<bool>>,
    limit: Option<Text<usize>>,
    after: Option<Text<IncidentId>>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<Incident>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let filter = IncidentFilter {
        namespace: Some(namespace),
        job: listing.job,
        is_open: listing.open.is_some_and(|open| open.0),
    };
    let before = listing.after.map(|after| after.0);
    let found = endpoints.handle.reads().incidents(&filter, before, limit + 1).await?;
    let page = Page::cut(found, limit, |incident| incident.id.to_string());
    let items = page.items.iter().map(|incident| Incident::from(&**incident)).collect();
    Ok(Json(Page { items, next: page.next }))
}

/// The path has the id of an incident where others have that of a run.
fn incident_of(RunId(id): RunId) -> IncidentId {
    IncidentId(id)
}

pub(crate) async fn show(State(endpoints): State<Endpoints>, at: RunAt) -> Result<Json<Incident>, Failed> {
    let id = incident_of(at.run);
    let filter = IncidentFilter { namespace: Some(at.namespace), ..IncidentFilter::default() };
    let just_after = Some(IncidentId(id.0.saturating_add(1)));
    let found = endpoints.handle.reads().incidents(&filter, just_after, 1).await?;
    match found.first().filter(|incident| incident.id == id) {
        Some(incident) => Ok(Json(Incident::from(&**incident))),
        None => Err(Problem::new(Code::NoSuchIncident, format!("no incident {id} in this namespace")).into()),
    }
}

pub(crate) async fn acknowledge(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    parts: Parts,
    MaybeJson(body): MaybeJson<Comment>,
) -> Result<Json<Incident>, Failed> {
    act(&endpoints, at, &parts, IncidentAct::Acknowledge, body.comment).await
}

pub(crate) async fn silence(
    State(endpoints): State<Endpoints>,
    at: RunAt,
    parts: Parts,
    body::Json(body): body::Json<SilenceIncident>,
) -> Result<Json<Incident>, Failed> {
    let until = body.until.map(|until| until.0);
    act(&endpoints, at, &parts, IncidentAct::Silence(until), body.comment).await
}

async fn act(
    endpoints: &Endpoints,
    at: RunAt,
    parts: &Parts,
    act: IncidentAct,
    comment: String,
) -> Result<Json<Incident>, Failed> {
    let by = endpoints.name_of_caller(parts).await?;
    let (namespace, incident, comment) = (at.namespace, incident_of(at.run), comment.into());
    let command = Command::ActOnIncident(ActOnIncident { namespace, incident, act, by, comment });
    match endpoints.handle.command(command).await? {
        Answer::Incident(incident) => Ok(Json(Incident::from(&*incident as &Stored))),
        other => Err(unexpected(&other)),
    }
}

pub(crate) async fn channels(State(endpoints): State<Endpoints>) -> Json<Page<Channel>> {
    let Some(channels) = endpoints.handle.channels() else {
        return Json(Page { items: Vec::new(), next: None });
    };
    let defaults = channels.defaults();
    let channel = |name: Name| Channel { default: defaults.contains(&name), name };
    Json(Page { items: channels.names().into_iter().map(channel).collect(), next: None })
}

/// Sends a test notification through a channel, from the node that gets the request.
pub(crate) async fn test(
    State(endpoints): State<Endpoints>,
    ChannelAt(name): ChannelAt,
) -> Result<StatusCode, Failed> {
    let channels = endpoints.handle.channels().filter(|channels| channels.names().contains(&name));
    let Some(channels) = channels else {
        let message = format!("no channel `{name}` is under [alerts] in the settings of this server");
        return Err(Problem::new(Code::NoSuchChannel, message).into());
    };
    match channels.test(&name).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(why) => Err(Problem::new(Code::ChannelFailed, format!("channel `{name}`: {why}")).into()),
    }
}

/// Refuses an alert with a channel that the settings do not have.
pub(crate) fn check_channels(
    channels: Option<&Arc<dyn AlertChannels>>,
    definition: &Definition,
) -> Result<(), Failed> {
    let Some(channels) = channels else { return Ok(()) };
    let known = channels.names();
    let of_job =
        definition.alerts.iter().enumerate().map(|(index, alert)| (format!("alerts[{index}]"), alert));
    let of_steps = definition.workflow().map(Workflow::alerts).unwrap_or_default().into_iter();
    let of_steps = of_steps.map(|(path, alert)| (format!("task.workflow.{path}"), alert));
    for (path, alert) in of_job.chain(of_steps) {
        if let Some(unknown) = alert.to.iter().find(|channel| !known.contains(channel)) {
            let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            let message = format!("no channel `{unknown}` is under [alerts] in the settings; {known}");
            let invalid = Invalid::new(format!("{path}.to"), message);
            return Err(Failed(Problem::from(error::Error::from(invalid))));
        }
    }
    Ok(())
}
