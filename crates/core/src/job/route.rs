//! The route of a run: which workers fit, and how one of them is chosen.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Invalid;
use crate::Timestamp;
use crate::limits;
use crate::params::Params;
use crate::template::{Scope, Template, Values};

/// Labels of workers and selectors: names and values.
pub type Labels = BTreeMap<String, String>;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Route {
    pub strategy: Strategy,
    /// The labels that a worker must have.
    pub selector: Arc<Labels>,
    /// The key of the keyed strategies. It may be a template of the parameters and the due time.
    pub key: Option<String>,
    /// The number of child runs that a run is split into. `None` means that it is not split.
    pub shards: Option<u32>,
}

/// How a worker is chosen among those that fit and have a free slot. The order of variants is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Strategy {
    /// The worker with the smallest share of its slots in use.
    #[default]
    LeastLoaded,
    /// Round robin by name.
    RoundRobin,
    /// By a hash of the run's id.
    Random,
    /// The worker with the least loaded machine.
    LeastUtilised,
    /// Smooth weighted round-robin.
    Weighted,
    /// The worker of the key; while that is full, the next one.
    ConsistentHash,
    /// The worker of the key, and no other while that one is present.
    Sticky,
    /// The first by name.
    First,
    /// The last by name.
    Last,
    /// The worker that has gone longest without a run of the job.
    LeastRecentlyUsed,
    /// The worker that has had the fewest runs of the job.
    LeastFrequentlyUsed,
    /// The first by name on which no attempt of the run has failed.
    Failover,
    /// A worker on the scheduling node; if there is none, the least loaded.
    Local,
    /// All workers: the run is split into one child run for each worker that fits when it starts.
    Broadcast,
}

impl Strategy {
    pub const ALL: [Strategy; 14] = [
        Strategy::LeastLoaded,
        Strategy::RoundRobin,
        Strategy::Random,
        Strategy::LeastUtilised,
        Strategy::Weighted,
        Strategy::ConsistentHash,
        Strategy::Sticky,
        Strategy::First,
        Strategy::Last,
        Strategy::LeastRecentlyUsed,
        Strategy::LeastFrequentlyUsed,
        Strategy::Failover,
        Strategy::Local,
        Strategy::Broadcast,
    ];

    /// Whether it uses `route.key`.
    pub fn goes_by_key(self) -> bool {
        matches!(self, Strategy::ConsistentHash | Strategy::Sticky)
    }

    /// Whether it may send the parts of one run to different workers. Other strategies choose one for all parts.
    fn spreads(self) -> bool {
        !self.goes_by_key()
            && !matches!(self, Strategy::First | Strategy::Last | Strategy::Local | Strategy::Broadcast)
    }
}

impl Route {
    /// Whether the least loaded worker of the right kind takes the run.
    pub fn is_plain(&self) -> bool {
        self.strategy == Strategy::LeastLoaded && self.selector.is_empty()
    }

    /// Whether a run is split into child runs.
    pub fn splits(&self) -> bool {
        self.shards.is_some() || self.strategy == Strategy::Broadcast
    }

    pub(super) fn check(&self) -> Result<(), Invalid> {
        check_labels("route.selector", &self.selector)?;
        self.check_shards()?;
        let Some(key) = &self.key else { return Ok(()) };
        if !self.strategy.goes_by_key() {
            let message =
                "only `consistent_hash` and `sticky` go by a key; choose one of them or leave it out";
            return Err(Invalid::new("route.key", message));
        }
        if key.is_empty() || key.len() > limits::KEY_BYTES_MAX {
            return Err(Invalid::new("route.key", format!("1 to {} bytes", limits::KEY_BYTES_MAX)));
        }
        template(key).map(drop)
    }

    fn check_shards(&self) -> Result<(), Invalid> {
        let Some(shards) = self.shards else { return Ok(()) };
        if shards == 0 || shards > limits::CHILDREN_MAX {
            return Err(Invalid::new("route.shards", format!("1 to {}", limits::CHILDREN_MAX)));
        }
        if self.strategy == Strategy::Broadcast {
            let message = "`broadcast` makes one child run per worker; drop one of the two";
            return Err(Invalid::new("route.shards", message));
        }
        if !self.strategy.spreads() {
            let message = "shards go to different workers, and this strategy names one for all of them; \
                           leave `route.strategy` out or choose another";
            return Err(Invalid::new("route.shards", message));
        }
        Ok(())
    }

    /// The evaluated key of a run. `None` means that it has no key, or that the template fails with these parameters.
    pub fn key_for(&self, params: &Params, due: Timestamp) -> Option<String> {
        let key = self.key.as_ref()?;
        let template = template(key).ok()?;
        if template.is_literal() {
            return Some(key.clone());
        }
        template.render(&Values::of_params_and_due(&params.0, due)).ok()
    }
}

fn template(key: &str) -> Result<Template, Invalid> {
    Template::parse_in(key, &Scope::ROUTE).map_err(|error| Invalid::new("route.key", error.in_text(key)))
}

/// Refuses labels that no worker could have.
pub fn check_labels(field: &'static str, labels: &Labels) -> Result<(), Invalid> {
    if labels.len() > limits::LABELS_MAX {
        return Err(Invalid::new(field, format!("at most {} labels", limits::LABELS_MAX)));
    }
    let fits = |text: &String| text.len() <= limits::LABEL_BYTES_MAX && !text.chars().any(char::is_control);
    match labels.iter().find(|(name, value)| name.is_empty() || !fits(name) || !fits(value)) {
        Some((name, _)) => Err(Invalid::new(
            field,
            format!(
                "`{}` is no label: a name and a value of at most {} bytes without control characters",
                name.escape_default(),
                limits::LABEL_BYTES_MAX
            ),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sticky(key: &str) -> Route {
        Route { strategy: Strategy::Sticky, key: Some(key.to_owned()), ..Route::default() }
    }

    #[test]
    fn a_key_is_made_of_parameters_and_the_due_time() {
        let (params, due) =
            (Params(r#"{"region":"east"}"#.into()), Timestamp::from_millis(1_800_000_000_000));
        let key = |text: &str| sticky(text).key_for(&params, due);
        assert_eq!(key("plain").as_deref(), Some("plain"));
        assert_eq!(key("{{ params.region }}-{{ due | date }}").as_deref(), Some("east-2027-01-15"));
        assert_eq!(key("{{ params.nothing }}"), None);
    }

    #[test]
    fn what_no_run_could_follow_is_refused_with_its_field() {
        let labels = |name: &str, value: &str| Arc::new(Labels::from([(name.to_owned(), value.to_owned())]));
        let rows = [
            (sticky("{{ parms.region }}"), "route.key"),
            (sticky(""), "route.key"),
            (Route { key: Some("k".to_owned()), ..Route::default() }, "route.key"),
            (Route { shards: Some(0), ..Route::default() }, "route.shards"),
            (Route { shards: Some(10_001), ..Route::default() }, "route.shards"),
            (Route { shards: Some(4), ..sticky("k") }, "route.shards"),
            (Route { shards: Some(4), strategy: Strategy::Broadcast, ..Route::default() }, "route.shards"),
            (Route { shards: Some(4), strategy: Strategy::First, ..Route::default() }, "route.shards"),
            (
                Route { key: Some("k".to_owned()), strategy: Strategy::Broadcast, ..Route::default() },
                "route.key",
            ),
            (Route { selector: labels("", "ssd"), ..Route::default() }, "route.selector"),
            (Route { selector: labels("disk", "s\nsd"), ..Route::default() }, "route.selector"),
            (Route { selector: labels("disk", &"x".repeat(200)), ..Route::default() }, "route.selector"),
        ];
        for (route, field) in rows {
            assert_eq!(
                route.check().map_err(|error| error.field.into_owned()),
                Err(field.to_owned()),
                "{route:?}"
            );
        }
        assert_eq!(sticky("{{ params.region }}").check(), Ok(()));
        for strategy in [Strategy::LeastLoaded, Strategy::RoundRobin, Strategy::Failover] {
            assert_eq!(Route { shards: Some(10_000), strategy, ..Route::default() }.check(), Ok(()));
        }
    }
}
