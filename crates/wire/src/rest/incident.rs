//! An incident: a condition of a job that holds, or held until a short time ago.

use punctual_core::alert as rule;
use punctual_core::ids::{IncidentId, RunId};
use punctual_core::name::{Name, Namespace};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ByHand;
use crate::job_file::Alert;
use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Incident {
    #[schema(value_type = schema::Id)]
    pub id: Text<IncidentId>,
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    /// `null` means that it is about a channel.
    #[schema(value_type = Option<schema::Name>)]
    pub job: Option<Name>,
    /// The path of the step that it is about, such as `settle/book`. Left out: it is about the whole job, or a channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The channel that could not be reached. `null` means that it is about a job.
    #[schema(value_type = Option<schema::Name>)]
    pub channel: Option<Name>,
    /// The condition, as in a job file. `null` means that it is about a channel.
    pub on: Option<Alert>,
    /// The condition in words.
    pub condition: String,
    pub opened_at: Instant,
    /// `null` means that it is open.
    pub ended_at: Option<Instant>,
    /// When the condition was last met, and how often so far.
    pub last_at: Instant,
    pub count: u64,
    /// The run that met it last.
    #[schema(value_type = Option<schema::Id>)]
    pub run: Option<Text<RunId>>,
    /// The error of that run, cut to its end. Empty if the condition has no error.
    pub error: String,
    /// How often people were notified, and when they last were.
    pub notified: u32,
    pub notified_at: Instant,
    /// Who knows about the incident; it is not repeated any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<ByHand>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Silence>,
}

/// Nothing is sent about an incident until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Silence {
    pub until: Instant,
    #[serde(flatten)]
    pub by: ByHand,
}

/// Silences an incident.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SilenceIncident {
    /// Until when nothing is sent about the incident. `null` ends a silence.
    pub until: Option<Instant>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

/// A channel of `[alerts]` in the settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Channel {
    #[schema(value_type = schema::Name)]
    pub name: Name,
    /// Whether alerts that name no channel go there.
    pub default: bool,
}

impl From<&rule::Incident> for Incident {
    fn from(incident: &rule::Incident) -> Self {
        let (job, channel, on, condition) = match &incident.subject {
            rule::Subject::Job { name, on, .. } => {
                (Some(name.clone()), None, Some(Alert::condition(on)), on.to_string())
            }
            rule::Subject::Channel(name) => {
                (None, Some(name.clone()), None, format!("channel {name} cannot be reached"))
            }
        };
        Incident {
            id: Text(incident.id),
            namespace: incident.namespace.clone(),
            job,
            step: incident.step().map(str::to_owned),
            channel,
            on,
            condition,
            opened_at: Text(incident.opened_at),
            ended_at: incident.ended_at.map(Text),
            last_at: Text(incident.last_at),
            count: incident.count,
            run: incident.run.map(Text),
            error: incident.error.to_string(),
            notified: incident.notified,
            notified_at: Text(incident.notified_at),
            acknowledged: incident.acknowledged.as_deref().map(ByHand::from),
            silence: incident
                .silence
                .as_deref()
                .map(|silence| Silence { until: Text(silence.until), by: ByHand::from(&silence.by) }),
        }
    }
}
