//! The share of a job: for whom its runs take turns with other runs of the namespace while too few slots are free.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Invalid;
use crate::Timestamp;
use crate::limits::{KEY_BYTES_MAX, SHARE_WEIGHT_MAX};
use crate::params::Params;
use crate::template::{Scope, Template, Values};

/// Runs with the same key take turns together, beside the other keys of the namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// It may be a template of the parameters and the due time.
    pub key: String,
    /// How many turns the key has while a key of weight 1 has one.
    pub weight: u32,
}

impl Share {
    fn template(&self) -> Result<Template, Invalid> {
        Template::parse_in(&self.key, &Scope::ROUTE)
            .map_err(|error| Invalid::new("share.key", error.in_text(&self.key)))
    }

    pub(super) fn check(&self) -> Result<(), Invalid> {
        if self.key.is_empty() || self.key.len() > KEY_BYTES_MAX {
            return Err(Invalid::new("share.key", format!("1 to {KEY_BYTES_MAX} bytes")));
        }
        if self.weight == 0 || self.weight > SHARE_WEIGHT_MAX {
            return Err(Invalid::new("share.weight", format!("1 to {SHARE_WEIGHT_MAX}")));
        }
        self.template().map(drop)
    }

    /// The key of a run. `None` means that these parameters give no key of at most [`KEY_BYTES_MAX`] bytes: the run belongs
    /// to the runs of the namespace that have no key.
    pub fn key_for(&self, params: &Params, due: Timestamp) -> Option<Arc<str>> {
        let template = self.template().ok()?;
        if template.is_literal() {
            return Some(self.key.as_str().into());
        }
        let key = template.render(&Values::of_params_and_due(&params.0, due)).ok()?;
        (!key.is_empty() && key.len() <= KEY_BYTES_MAX).then(|| key.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(key: &str, weight: u32) -> Share {
        Share { key: key.to_owned(), weight }
    }

    #[test]
    fn a_key_is_a_text_or_made_of_the_parameters() {
        let key = |key: &str, params: &str| {
            share(key, 1).key_for(&Params(params.into()), Timestamp::default()).map(|key| key.to_string())
        };
        assert_eq!(key("crawl", "{}"), Some("crawl".to_owned()));
        assert_eq!(key("{{ params.customer }}", r#"{"customer":"acme"}"#), Some("acme".to_owned()));
        assert_eq!(key("{{ params.customer }}", "{}"), None);
        let long = format!(r#"{{"customer":"{}"}}"#, "x".repeat(KEY_BYTES_MAX + 1));
        assert_eq!(key("{{ params.customer }}", &long), None);
    }

    #[test]
    fn a_share_that_cannot_be_is_refused_by_its_field() {
        for (bad, field) in [
            (share("", 1), "share.key"),
            (share(&"x".repeat(KEY_BYTES_MAX + 1), 1), "share.key"),
            (share("{{ nobody }}", 1), "share.key"),
            (share("crawl", 0), "share.weight"),
            (share("crawl", SHARE_WEIGHT_MAX + 1), "share.weight"),
        ] {
            assert_eq!(bad.check().unwrap_err().field, field, "{bad:?}");
        }
        assert_eq!(share("crawl", SHARE_WEIGHT_MAX).check(), Ok(()));
    }
}
