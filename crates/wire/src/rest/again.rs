//! A finished run or a dead letter, tried again.

use std::collections::BTreeMap;
use std::fmt;

use punctual_core::command::RetryRun;
use punctual_core::ids::RunId;
use punctual_core::limits::WORKFLOW_STEPS_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::workflow::{self as rule, StepParams};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use super::Comment;
use super::submit::{instant, key, own_params};
use crate::error::Error;
use crate::job_file::JsonObject;
use crate::schema::{self, one_of};
use crate::text::Instant;

/// A finished run or a dead letter, tried again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { params: {} }")]
pub struct Again {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<JsonObject>,
    /// The due time of the new run instead of the one it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether the new run starts at the last checkpoint of the old one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resume: bool,
    /// Only for a workflow: the steps to execute again. Those that ended well and need none of these are reused. Without
    /// it, all steps are executed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<RetryFrom>,
    /// Only for a workflow: parameters for its steps by name, merged over those that they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, StepAgain>>)]
    pub steps: Option<BTreeMap<Name, StepAgain>>,
    /// Why; it is recorded with the name of the token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1024)]
    pub comment: String,
}

/// A step of a workflow that is tried again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { params: {} }")]
pub struct StepAgain {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<JsonObject>,
}

/// The steps that a retry executes again, with all that need them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryFrom {
    /// `failed`: those that did not end well.
    Failed,
    /// These, and those that did not end well.
    Steps(Vec<Name>),
}

const FAILED: &str = "failed";

schema::by_hand!(RetryFrom as "RetryFrom": one_of([schema::words([FAILED]), schema::list_of::<schema::Name>()]); schema::Name);

impl Serialize for RetryFrom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RetryFrom::Failed => serializer.serialize_str(FAILED),
            RetryFrom::Steps(steps) => steps.serialize(serializer),
        }
    }
}

/// Written by hand, because an untagged enum would lose the position of an error.
impl<'de> Deserialize<'de> for RetryFrom {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrList;

        impl<'de> Visitor<'de> for WordOrList {
            type Value = RetryFrom;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`failed` or a list of steps")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RetryFrom, E> {
                match text {
                    FAILED => Ok(RetryFrom::Failed),
                    other => {
                        let message = format!("must be `failed` or a list of steps such as [\"{other}\"]");
                        Err(E::custom(message))
                    }
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<RetryFrom, A::Error> {
                let steps = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                if steps.len() > WORKFLOW_STEPS_MAX {
                    return Err(A::Error::custom(format!("has more than {WORKFLOW_STEPS_MAX} steps")));
                }
                Ok(RetryFrom::Steps(steps))
            }
        }
        deserializer.deserialize_any(WordOrList)
    }
}

impl Again {
    /// The command that tries a run again, asked by the token of this name.
    pub fn into_core(
        self,
        header: Option<&str>,
        (namespace, run): (Namespace, RunId),
        by: Option<Box<str>>,
        dead_letter: bool,
    ) -> Result<RetryRun, Error> {
        Ok(RetryRun {
            namespace,
            run,
            params: own_params(self.params)?,
            due: self.due_at.map(|at| instant("due_at", at)).transpose()?,
            key: key(self.key, header)?,
            resume: self.resume,
            dead_letter,
            from: self.from.map(|from| match from {
                RetryFrom::Failed => rule::RetryFrom::Failed,
                RetryFrom::Steps(steps) => rule::RetryFrom::Steps(steps),
            }),
            step_params: self.steps.map(step_params).transpose()?,
            by,
            comment: Comment { comment: self.comment }.into_core()?,
        })
    }
}

fn step_params(steps: BTreeMap<Name, StepAgain>) -> Result<StepParams, Error> {
    let mut given = StepParams::new();
    for (name, step) in steps {
        let params = own_params(step.params).map_err(|error| error.under(&format!("steps.{name}")))?;
        given.extend(params.map(|params| (name, params)));
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    fn read(body: &str) -> Result<RetryRun, Error> {
        tree::from_json::<Again>(body.as_bytes())?.into_core(
            None,
            (Namespace::default(), RunId(1)),
            None,
            false,
        )
    }

    #[test]
    fn a_retry_begins_at_the_failed_steps_or_at_named_ones() {
        assert_eq!(read("{}").unwrap().from, None);
        assert_eq!(read(r#"{"from": "failed"}"#).unwrap().from, Some(rule::RetryFrom::Failed));
        let named = read(r#"{"from": ["load"], "steps": {"load": {"params": {"day": 7}}}}"#).unwrap();
        assert_eq!(named.from, Some(rule::RetryFrom::Steps(vec!["load".parse().unwrap()])));
        assert_eq!(&*named.step_params.unwrap()[&"load".parse::<Name>().unwrap()].0, r#"{"day":7}"#);
    }

    #[test]
    fn a_wrong_word_is_refused_with_its_field() {
        for (body, field) in [
            (r#"{"from": "load"}"#, "from"),
            (r#"{"from": ["no name"]}"#, "from[0]"),
            (r#"{"from": 7}"#, "from"),
            (r#"{"steps": {"load": {"parms": {}}}}"#, "steps.load.parms"),
            (&format!(r#"{{"comment": "{}"}}"#, "x".repeat(1025)), "comment"),
        ] {
            let error = read(body).unwrap_err().to_string();
            assert!(error.contains(field), "{body}: {error}");
        }
    }
}
