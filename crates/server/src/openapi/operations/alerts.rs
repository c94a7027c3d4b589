//! Incidents and channels.

use punctual_wire::rest::{Channel, Code, Comment, Incident, SilenceIncident};
use punctual_wire::schema;
use serde_json::json;

use super::{get, listing, post};
use crate::openapi::operation::Operation;

pub(super) fn alerts() -> Vec<Operation> {
    vec![
        listing(get(
            "/api/v1/namespaces/{namespace}/incidents",
            "list_incidents",
            "List incidents, newest first: those that are open, and those that ended in the last week",
        ))
        .query_of::<schema::Id>("after")
        .query_of::<schema::Name>("job")
        .query("open", &json!({ "type": "boolean" }))
        .answers_a_page_of::<Incident>(),
        get("/api/v1/namespaces/{namespace}/incidents/{id}", "show_incident", "Show an incident")
            .answers::<Incident>(200, "The incident")
            .refuses(&[Code::NoSuchIncident]),
        post(
            "/api/v1/namespaces/{namespace}/incidents/{id}/acknowledge",
            "acknowledge_incident",
            "Say that a person knows about an incident: it is not repeated any more",
        )
        .may_take::<Comment>()
        .answers::<Incident>(200, "The incident")
        .refuses(&[Code::NoSuchIncident, Code::IncidentOver]),
        post(
            "/api/v1/namespaces/{namespace}/incidents/{id}/silence",
            "silence_incident",
            "Send nothing about an incident until an instant",
        )
        .takes::<SilenceIncident>()
        .answers::<Incident>(200, "The incident")
        .refuses(&[Code::NoSuchIncident, Code::IncidentOver]),
        get("/api/v1/channels", "list_channels", "List the channels that notifications can go to")
            .answers_a_page_of::<Channel>(),
        post("/api/v1/channels/{channel}/test", "test_channel", "Send a test notification through a channel")
            .answers_nothing("The channel took it")
            .refuses(&[Code::NoSuchChannel, Code::ChannelFailed]),
    ]
}
