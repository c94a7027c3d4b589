//! The parameters of a job, a run and a step, and how a change of them is merged.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::invalid::Invalid;
use crate::limits::PARAMS_BYTES_MAX;

/// Parameters: a JSON object as text. They reach a process as values and are never inserted into a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Arc<str>")]
pub struct Params(pub Arc<str>);

/// The text of most parameters, shared: thousands of steps may be in memory for months.
static NONE: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("{}"));

impl Default for Params {
    fn default() -> Self {
        Params(Arc::clone(&NONE))
    }
}

impl From<Arc<str>> for Params {
    fn from(text: Arc<str>) -> Self {
        if *text == **NONE { Params::default() } else { Params(text) }
    }
}

impl Params {
    /// These parameters with a JSON merge patch (RFC 7396) applied: null removes a parameter.
    pub fn merged(&self, patch: &Params) -> Result<Params, Invalid> {
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text);
        let patch =
            read(&patch.0).map_err(|error| Invalid::new("params", format!("must be JSON: {error}")))?;
        if !patch.is_object() {
            return Err(Invalid::new("params", "must be a JSON object"));
        }
        let mut merged = read(&self.0).unwrap_or_default();
        merge(&mut merged, patch);
        let text = merged.to_string();
        if text.len() > PARAMS_BYTES_MAX {
            let most = format!("must have at most {PARAMS_BYTES_MAX} bytes of JSON after the merge");
            return Err(Invalid::new("params", most));
        }
        Ok(Params(text.into()))
    }
}

fn merge(target: &mut serde_json::Value, patch: serde_json::Value) {
    let serde_json::Value::Object(changes) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = serde_json::Value::Object(serde_json::Map::new());
    }
    let Some(entries) = target.as_object_mut() else { return };
    for (key, change) in changes {
        if change.is_null() {
            entries.remove(&key);
        } else {
            merge(entries.entry(key).or_insert(serde_json::Value::Null), change);
        }
    }
}
