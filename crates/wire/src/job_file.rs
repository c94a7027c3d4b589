//! The job file, which is also the body of a job in REST.
//!
//! Every field is optional for serde; missing fields and fields that do not go together are reported here,
//! with the name of the field. `core` then checks the whole definition.

mod alert;
mod limit;
mod one_or_many;
mod policy;
mod route;
mod schedule;
mod task;
mod workflow;

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::alert as rule;
use punctual_core::job::Definition;
use punctual_core::name::{Name, Namespace};
use punctual_core::task::{self as task_rule, Params};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;
use crate::merge_patch;
use crate::schema;
use crate::text::{Span, small};
use crate::tree::{Node, Value};

pub use alert::{Alert, AlertOn, Alerts};
pub use limit::{Beyond, Limit, Limits, Rate, Starts};
pub use one_or_many::OneOrMany;
pub use policy::{Backoff, Keep, Misfire, MisfirePolicy, Overlap, Retry, RetryOn, Share, Unique};
pub use route::{Route, Strategy};
pub use schedule::{Schedule, Schedules, read_cron};
pub(crate) use task::NEEDED;
pub use task::{
    Accept, Body, Codes, Enqueue, Expect, Grpc, GrpcAccept, GrpcExpect, Http, Method, Noop, Ping, Process,
    Status, Task, Tls,
};
pub use workflow::{
    Approve, Entries, EventWait, Rule, Step, Switch, Wait, Workflow, WorkflowDraft, read_workflows,
};

/// Fields that the server adds to a job. They are accepted in a file and ignored, so that a job that was read
/// can be put back unchanged.
pub const SAID_BY_THE_SERVER: [&str; 9] =
    ["id", "revision", "state", "pause", "created_at", "updated_at", "next_due_at", "fired_through", "last"];

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a job, a map with at least `name` and `task`")]
pub struct JobFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Namespace>)]
    pub namespace: Option<Namespace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub name: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// The parameters whose values a run is found by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedules>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<JsonObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The time between the request to stop an attempt and its kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_once: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// How long a lost attempt still counts as running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap_grace: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misfire: Option<Misfire>,
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<bool>,
    /// How many failed runs in a row pause the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_after: Option<u32>,
    /// The conditions under which people are notified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alerts: Option<Alerts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<Keep>,
}

/// Parameters as JSON. Keys are sorted, so equal parameters have equal text.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;

/// A parsed job, ready to be put.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    pub namespace: Namespace,
    pub name: Name,
    pub definition: Arc<Definition>,
}

/// Parses every job of a YAML or JSON file; `namespace` is the default. The errors have one entry per document.
pub fn read_all(text: &str, namespace: &Namespace) -> Result<Vec<Draft>, Vec<Error>> {
    let documents = Node::from_yaml(text).map_err(|error| vec![error])?;
    let read = |document: Node| {
        read(document, |file| {
            file.namespace.get_or_insert_with(|| namespace.clone());
            Ok(())
        })
    };
    let (drafts, errors): (Vec<_>, Vec<_>) = documents.into_iter().map(read).partition(Result::is_ok);
    if errors.is_empty() {
        Ok(drafts.into_iter().flatten().collect())
    } else {
        Err(errors.into_iter().filter_map(Result::err).collect())
    }
}

/// The job of a request whose URL has no name; the body may repeat the namespace, but not differ from it.
pub fn read_in(document: Node, namespace: &Namespace) -> Result<Draft, Error> {
    read(document, |file| file.within(namespace))
}

/// Applies a merge patch to a job, and checks the result as a whole.
pub fn patched(current: &JobFile, patch: Node) -> Result<Draft, Error> {
    let Value::Map(entries) = &patch.value else {
        return Err(Error::invalid("", "expected a map of what is to change"));
    };
    // In a whole job these fields are ignored; in a patch that would look as if they had been changed.
    let said = entries.iter().map(|(key, _)| key.text.as_str()).find(|key| SAID_BY_THE_SERVER.contains(key));
    if let Some(field) = said {
        return Err(Error::invalid(field, "is not for a patch to change: the server says it"));
    }
    // A job file is plain data, so serializing it cannot fail.
    let mut document = Node::from_json(&serde_json::to_vec(current).unwrap_or_default())?;
    merge_patch::apply(&mut document, patch);
    let same = |file: &mut JobFile| match (&current.namespace, &current.name) {
        (Some(namespace), Some(name)) => file.address(namespace, name),
        _ => Ok(()),
    };
    read(document, same)
}

/// The job of a put request; the body may repeat the name of the URL, but not differ from it.
pub fn read_for(document: Node, namespace: &Namespace, name: &Name) -> Result<Draft, Error> {
    read(document, |file| file.address(namespace, name))
}

fn read(
    mut document: Node,
    complete: impl FnOnce(&mut JobFile) -> Result<(), Error>,
) -> Result<Draft, Error> {
    document.remove(&SAID_BY_THE_SERVER);
    let mut file: JobFile = document.to()?;
    complete(&mut file)?;
    file.into_draft().map_err(|error| Error { place: document.place_of(&error.field), ..error })
}

impl JobFile {
    fn address(&mut self, namespace: &Namespace, name: &Name) -> Result<(), Error> {
        self.within(namespace)?;
        let same = self.name.get_or_insert_with(|| name.clone()) == name;
        if same { Ok(()) } else { Err(differs("name", name.as_str())) }
    }

    fn within(&mut self, namespace: &Namespace) -> Result<(), Error> {
        let same = self.namespace.get_or_insert_with(|| namespace.clone()) == namespace;
        if same { Ok(()) } else { Err(differs("namespace", namespace.as_str())) }
    }

    fn into_draft(self) -> Result<Draft, Error> {
        let name = self.name.ok_or_else(|| Error::invalid("name", "a job needs a name"))?;
        let namespace = self.namespace.unwrap_or_default();
        let task = self.task.ok_or_else(|| Error::invalid("task", NEEDED))?;
        let mut definition = Definition::of(task.into_core()?);
        if let Some(schedules) = self.schedule {
            definition.schedules = schedules.into_core(&format!("{namespace}/{name}"))?;
        }
        definition.description = self.description.unwrap_or_default();
        definition.labels = self.labels.unwrap_or_default();
        definition.search = self.search.unwrap_or_default();
        definition.params = params(self.params);
        definition.timeout = self.timeout.map(|span| span.0);
        definition.grace = self.grace.map(|span| span.0);
        definition.retry = self.retry.unwrap_or_default().into_core();
        definition.at_most_once = self.at_most_once.unwrap_or(definition.at_most_once);
        definition.overlap = self.overlap.map_or(definition.overlap, Into::into);
        definition.overlap_grace = self.overlap_grace.map(|span| span.0);
        definition.misfire = self.misfire.unwrap_or_default().into_core();
        definition.priority = self.priority.unwrap_or(definition.priority);
        definition.route = self.route.unwrap_or_default().into_core();
        if let Some(limits) = self.limits {
            definition.limits = limits.convert("limits", Limit::into_core)?;
        }
        definition.share = self.share.map(Share::into_core).transpose()?;
        definition.unique = self.unique.map(Unique::into_core).transpose()?;
        definition.dead_letter = self.dead_letter.unwrap_or(definition.dead_letter);
        definition.pause_after = self.pause_after;
        if let Some(alerts) = self.alerts {
            definition.alerts = alerts.convert("alerts", Alert::into_core)?;
        }
        add_alerts_of_ping(&mut definition);
        definition.keep = self.keep.unwrap_or_default().into_core();
        definition.check()?;
        Ok(Draft { namespace, name, definition: Arc::new(definition) })
    }

    /// A job as a file, with every default written out. The default alerts of a ping are left out, because they follow from
    /// its period, which a patch may change.
    pub fn of(namespace: &Namespace, name: &Name, definition: &Definition) -> JobFile {
        JobFile {
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            description: (!definition.description.is_empty()).then(|| definition.description.clone()),
            labels: (!definition.labels.is_empty()).then(|| definition.labels.clone()),
            search: (!definition.search.is_empty()).then(|| definition.search.clone()),
            schedule: Schedules::of(definition.schedules.iter().map(Schedule::of).collect()),
            task: Some(Task::of(&definition.task)),
            params: Some(serde_json::from_str(&definition.params.0).unwrap_or_default()),
            timeout: definition.timeout.map(Span),
            grace: definition.grace.map(Span),
            retry: Some(Retry::of(&definition.retry)),
            at_most_once: Some(definition.at_most_once),
            overlap: Some(definition.overlap.into()),
            overlap_grace: definition.overlap_grace.map(Span),
            misfire: Some(Misfire::of(&definition.misfire)),
            priority: Some(definition.priority),
            route: Some(Route::of(&definition.route)),
            limits: Limits::of(definition.limits.iter().map(Limit::of).collect()),
            share: definition.share.as_ref().map(Share::of),
            unique: definition.unique.as_ref().map(Unique::of),
            dead_letter: Some(definition.dead_letter),
            pause_after: definition.pause_after,
            alerts: Alerts::of(own_alerts(definition).map(Alert::of).collect()),
            keep: Some(Keep::of(&definition.keep)),
        }
    }
}

/// Adds the default alerts of a ping, after those that the file has for other conditions.
fn add_alerts_of_ping(definition: &mut Definition) {
    let Some(defaults) = definition.ping().map(task_rule::Ping::alerts) else { return };
    definition.alerts.retain(|alert| !defaults.contains(alert));
    for default in defaults {
        if !definition.alerts.iter().any(|alert| alert.on.word() == default.on.word()) {
            definition.alerts.push(default);
        }
    }
}

/// The alerts without the default ones of a ping.
fn own_alerts(definition: &Definition) -> impl Iterator<Item = &rule::Alert> {
    let defaults = definition.ping().map(task_rule::Ping::alerts);
    let is_default = move |alert: &rule::Alert| defaults.as_ref().is_some_and(|of| of.contains(alert));
    definition.alerts.iter().filter(move |alert| !is_default(alert))
}

fn differs(field: &str, given: &str) -> Error {
    Error::invalid(field, format!("the URL names `{given}`; remove this field or write the same value"))
}

pub(crate) fn params(object: Option<JsonObject>) -> Params {
    match object {
        Some(object) => Params(serde_json::Value::Object(object).to_string().into()),
        None => Params::default(),
    }
}

#[cfg(test)]
mod tests;
