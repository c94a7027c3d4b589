//! Holds: how they are ordered and listed.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::hold::{self, HoldRecord, Scope};
use punctual_core::job;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Pause;
use crate::error::Error;
use crate::text::{Instant, Span};

/// Puts a namespace or everything on hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { reason: \"the bank is closed\", for: 2h }")]
pub struct PutHold {
    /// Why; it is recorded with the name of the token.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 1024)]
    pub reason: String,
    /// When the hold ends by itself, within a year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    /// How long it lasts, instead of `until`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Span>,
    #[serde(default)]
    pub fires: HeldFires,
}

/// What happens to the due times during a hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldFires {
    /// They are recorded as skipped.
    #[default]
    Skip,
    /// They are recorded as skipped, and a backfill makes up for them after the hold.
    Keep,
}

/// A hold that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// It covers this namespace, with those inside it. Absent if it covers everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(flatten)]
    pub pause: Pause,
    pub fires: HeldFires,
    /// How many shards hold. If some do not, the order did not reach them: repeat it.
    pub shards_held: usize,
    pub shards: usize,
}

impl PutHold {
    /// The hold that is ordered now.
    pub fn order(self, scope: Scope, by: Option<Box<str>>, now: Timestamp) -> Result<hold::Hold, Error> {
        if self.reason.trim().is_empty() {
            return Err(Error::invalid("reason", "must not be empty: everyone whose runs wait reads it"));
        }
        let until = match (self.until, self.lasts) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("for", "set either `for` or `until`, not both"));
            }
            (_, Some(Span(Duration::ZERO))) => return Err(Error::invalid("for", "must be longer than 0s")),
            (_, Some(Span(lasts))) => Some(now + lasts),
            (until, None) => until.map(|until| until.0),
        };
        let pause = job::Pause { reason: self.reason.into(), by, since: now, until };
        Ok(hold::Hold { scope, pause, fires: self.fires.into() })
    }
}

impl Hold {
    /// The holds in force that `wants` accepts, widest first, of a store with so many shards.
    pub fn of(rows: &[Arc<HoldRecord>], shards: usize, wants: impl Fn(&Scope) -> bool) -> Vec<Hold> {
        let wanted = rows.iter().filter(|row| row.is_in_force() && wants(&row.hold.scope));
        let mut wanted: Vec<&hold::Hold> = wanted.map(|row| &row.hold).collect();
        wanted.sort_by_key(|hold| (&hold.scope, hold.pause.since));
        let same_scope = wanted.chunk_by(|one, other| one.scope == other.scope);
        let shown = same_scope.filter_map(|rows| {
            let newest = rows.last()?;
            Some(Hold {
                namespace: newest.scope.namespace().map(ToString::to_string),
                pause: Pause::from(&newest.pause),
                fires: newest.fires.into(),
                shards_held: rows.len(),
                shards,
            })
        });
        shown.collect()
    }

    /// Whether every shard has the hold.
    pub fn is_complete(&self) -> bool {
        self.shards_held == self.shards
    }

    /// What it covers, in words.
    pub fn scope(&self) -> String {
        self.namespace.as_ref().map_or_else(|| "everything".to_owned(), Clone::clone)
    }
}

impl From<HeldFires> for hold::Fires {
    fn from(fires: HeldFires) -> hold::Fires {
        match fires {
            HeldFires::Skip => hold::Fires::Skip,
            HeldFires::Keep => hold::Fires::Keep,
        }
    }
}

impl From<hold::Fires> for HeldFires {
    fn from(fires: hold::Fires) -> HeldFires {
        match fires {
            hold::Fires::Skip => HeldFires::Skip,
            hold::Fires::Keep => HeldFires::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn order(body: &str) -> Result<hold::Hold, Error> {
        let put: PutHold = serde_json::from_str(body).expect("a body");
        put.order(Scope::Everything, None, NOW)
    }

    #[test]
    fn a_hold_has_a_reason_and_one_end() {
        let hold = order(r#"{ "reason": "strike", "for": "2h", "fires": "keep" }"#).unwrap();
        assert_eq!(hold.pause.until, Some(NOW + Duration::from_secs(7200)));
        assert_eq!(hold.fires, hold::Fires::Keep);
        for (body, field) in [
            (r#"{ "reason": " " }"#, "reason"),
            (r#"{ "reason": "x", "for": "0s" }"#, "for"),
            (r#"{ "reason": "x", "for": "1s", "until": "2030-01-01T00:00:00Z" }"#, "for"),
        ] {
            assert!(order(body).unwrap_err().to_string().contains(field), "{body}");
        }
    }

    #[test]
    fn a_hold_that_some_shards_missed_says_so() {
        let hold = order(r#"{ "reason": "strike" }"#).unwrap();
        let rows = [(1, None), (2, None), (3, Some(NOW))]
            .map(|(number, released_at)| Arc::new(HoldRecord { number, hold: hold.clone(), released_at }));
        let shown = Hold::of(&rows, 3, |_| true);
        assert_eq!((shown.len(), shown[0].shards_held, shown[0].is_complete()), (1, 2, false));
        assert!(Hold::of(&rows, 3, |scope| *scope != Scope::Everything).is_empty());
    }
}
