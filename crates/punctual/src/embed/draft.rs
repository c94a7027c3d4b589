//! Jobs and runs in code, with the fields of a job file.
//!
//! They are parsed when they are used, so that every error is reported in one place, with the name of the
//! field. A program's own run stays in its process if possible: the default route is `local`.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::{Definition, Strategy};
use punctual_core::name::Namespace;
use punctual_core::schedule::format_duration;
use punctual_wire::job_file::{self, Draft};
use punctual_wire::rest::Started;
use punctual_wire::tree::{self, Value as Written};
use serde_json::{Map, Value, json};

use super::NodeError;

const ROUTE: &str = "route";

/// A job, with the fields of a job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Job(Content);

#[derive(Debug, Clone, PartialEq)]
enum Content {
    Fields(Map<String, Value>),
    Yaml(String),
}

impl Job {
    /// A job of this name; it needs a task, and a schedule to fire by itself.
    pub fn new(name: impl Into<String>) -> Job {
        Job(Content::Fields(Map::from_iter([("name".to_owned(), Value::String(name.into()))])))
    }

    /// Every job of a job file.
    pub fn from_yaml(text: impl Into<String>) -> Job {
        Job(Content::Yaml(text.into()))
    }

    /// Calls a function that is registered with [`super::Builder::function`], here or in another program.
    #[must_use]
    pub fn function(self, name: impl Into<String>) -> Job {
        self.set("task", json!({ "function": name.into() }))
    }

    /// The cron expression: five, six or seven fields, or a word such as `@daily`.
    #[must_use]
    pub fn cron(self, expression: impl Into<String>) -> Job {
        self.schedule("cron", Value::String(expression.into()))
    }

    /// The time zone of `cron`, such as `Asia/Shanghai`; UTC by default.
    #[must_use]
    pub fn timezone(self, zone: impl Into<String>) -> Job {
        self.schedule("timezone", Value::String(zone.into()))
    }

    /// Fires repeatedly with this period.
    #[must_use]
    pub fn every(self, span: Duration) -> Job {
        self.schedule("every", Value::String(format_duration(span)))
    }

    /// The parameters of the function; a map.
    #[must_use]
    pub fn params(self, params: Value) -> Job {
        self.set("params", params)
    }

    /// Any other field of a job file, such as `retry`, `timeout`, `overlap` or `route`.
    #[must_use]
    pub fn set(mut self, field: &str, value: Value) -> Job {
        if let Content::Fields(fields) = &mut self.0 {
            fields.insert(field.to_owned(), value);
        }
        self
    }

    fn schedule(mut self, field: &str, value: Value) -> Job {
        if let Content::Fields(fields) = &mut self.0 {
            let schedule = fields.entry("schedule").or_insert_with(|| json!({}));
            schedule[field] = value;
        }
        self
    }

    pub(super) fn read(&self, namespace: &Namespace) -> Result<Vec<Draft>, NodeError> {
        let text = match &self.0 {
            Content::Fields(fields) => json!(fields).to_string(),
            Content::Yaml(text) => text.clone(),
        };
        let documents = tree::Node::from_yaml(&text)?;
        let drafts = job_file::read_all(&text, namespace).map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            NodeError::Invalid(format!("{}: {}", self.called(), errors.join("; ")))
        })?;
        let stay = |(mut draft, document): (Draft, &tree::Node)| {
            if !says(document, ROUTE) {
                Arc::make_mut(&mut draft.definition).route.strategy = Strategy::Local;
            }
            draft
        };
        Ok(drafts.into_iter().zip(&documents).map(stay).collect())
    }

    fn called(&self) -> String {
        match &self.0 {
            Content::Fields(fields) => format!("job {}", fields.get("name").unwrap_or(&Value::Null)),
            Content::Yaml(_) => "a job".to_owned(),
        }
    }
}

fn says(document: &tree::Node, field: &str) -> bool {
    matches!(&document.value, Written::Map(entries) if entries.iter().any(|(key, _)| key.text == field))
}

/// A run without a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Submit(Map<String, Value>);

impl Submit {
    /// Calls a function that is registered with [`super::Builder::function`], here or in another program.
    pub fn function(name: impl Into<String>) -> Submit {
        Submit(Map::from_iter([("task".to_owned(), json!({ "function": name.into() }))]))
    }

    /// The parameters of the function; a map.
    #[must_use]
    pub fn params(self, params: Value) -> Submit {
        self.set("params", params)
    }

    /// Due this long from now; at once by default.
    #[must_use]
    pub fn delay(self, span: Duration) -> Submit {
        self.set("delay", Value::String(format_duration(span)))
    }

    /// The idempotency key: submitted again with the same key, it is the same run.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Submit {
        self.set("key", Value::String(key.into()))
    }

    /// Any other field of a submit, such as `retry`, `timeout` or `priority`.
    #[must_use]
    pub fn set(mut self, field: &str, value: Value) -> Submit {
        self.0.insert(field.to_owned(), value);
        self
    }

    pub(super) fn read(self, now: Timestamp) -> Result<Started<Arc<Definition>>, NodeError> {
        let is_routed = self.0.contains_key(ROUTE);
        let text = json!(self.0).to_string();
        let submit: punctual_wire::rest::Submit = tree::from_json(text.as_bytes())?;
        let mut started = submit.into_core(None, now)?;
        if !is_routed {
            Arc::make_mut(&mut started.what).route.strategy = Strategy::Local;
        }
        Ok(started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drafts(job: &Job) -> Vec<Draft> {
        job.read(&Namespace::default()).unwrap()
    }

    #[test]
    fn a_job_in_code_is_the_job_of_a_file_but_stays_at_home() {
        let said = Job::new("nightly").function("settle").cron("0 1 * * *").timezone("Asia/Shanghai");
        let said = said.params(json!({ "region": "east" })).set("retry", json!({ "attempts": 3 }));
        let file = "name: nightly\ntask: { function: settle }\nschedule: { cron: '0 1 * * *', timezone: Asia/Shanghai }\n\
                    params: { region: east }\nretry: { attempts: 3 }\n";
        assert_eq!(drafts(&said), drafts(&Job::from_yaml(file)));
        let [draft] = &drafts(&said)[..] else { panic!("one job") };
        assert_eq!((draft.definition.route.strategy, draft.definition.retry.attempts), (Strategy::Local, 3));
    }

    #[test]
    fn a_route_that_was_said_is_kept_document_by_document() {
        let file = "{name: a, task: {function: f}, route: {strategy: random}}\n---\n{name: b, task: {function: f}}\n";
        let strategies: Vec<Strategy> =
            drafts(&Job::from_yaml(file)).iter().map(|draft| draft.definition.route.strategy).collect();
        assert_eq!(strategies, [Strategy::Random, Strategy::Local]);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_job_and_the_field() {
        for (job, parts) in [
            (Job::new("a b").function("f"), ["job \"a b\"", "name"]),
            (Job::new("a"), ["job \"a\"", "task"]),
            (Job::new("a").function("f").cron("nonsense"), ["job \"a\"", "schedule.cron"]),
            (Job::new("a").function("f").set("retries", json!(3)), ["job \"a\"", "retries"]),
        ] {
            let error = job.read(&Namespace::default()).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        let error = Submit::function("f").set("when", json!("now")).read(Timestamp::MIN).unwrap_err();
        assert!(error.to_string().contains("when"), "{error}");
    }
}
