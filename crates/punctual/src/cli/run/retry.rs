//! `punctual run retry`: a finished run, once more.

use std::collections::BTreeMap;

use clap::Args;
use punctual_core::Timestamp;
use punctual_core::ids::RunId;
use punctual_core::name::Name;
use punctual_wire::Text;
use punctual_wire::rest::{Again, RetryFrom, StepAgain};

use super::follow;
use crate::cli::Session;
use crate::cli::failure::Failure;
use crate::cli::job::Params;

#[derive(Debug, Args)]
pub(crate) struct Retry {
    id: RunId,
    /// Other parameters, as a JSON object
    #[arg(long, value_name = "JSON")]
    params: Option<Params>,
    /// Another due time for the new run
    #[arg(long, value_name = "INSTANT")]
    due: Option<Timestamp>,
    /// Start at the last checkpoint of the finished run
    #[arg(long)]
    resume: bool,
    /// Only for a workflow: the steps to execute again, `failed` or names separated by commas; the others are reused
    #[arg(long, value_name = "STEPS", value_parser = from)]
    from: Option<RetryFrom>,
    /// Only for a workflow: other parameters of a step; may be repeated
    #[arg(long, value_name = "NAME=JSON", value_parser = step_params)]
    step_params: Vec<(Name, Params)>,
    /// Why; it is recorded with your token's name
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// Wait until the new run has ended; exit code 0 means success
    #[arg(long)]
    wait: bool,
}

impl Retry {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, .. } = session;
        let steps: BTreeMap<Name, StepAgain> = self
            .step_params
            .into_iter()
            .map(|(name, params)| (name, StepAgain { params: Some(params.0) }))
            .collect();
        let again = Again {
            params: self.params.map(|params| params.0),
            due_at: self.due.map(Text),
            key: None,
            resume: self.resume,
            from: self.from,
            steps: (!steps.is_empty()).then_some(steps),
            comment: self.comment,
        };
        let made = client.retry_run(namespace, self.id, &again).await?;
        follow(session, made, self.wait).await
    }
}

/// A step that is named `failed` can be given with another one: `failed,failed`.
fn from(text: &str) -> Result<RetryFrom, String> {
    if text == "failed" {
        return Ok(RetryFrom::Failed);
    }
    let steps = text.split(',').map(|name| name.trim().parse::<Name>().map_err(|error| error.to_string()));
    steps.collect::<Result<Vec<Name>, String>>().map(RetryFrom::Steps)
}

fn step_params(text: &str) -> Result<(Name, Params), String> {
    let (name, json) = text.split_once('=').ok_or("write NAME=JSON, such as load={\"day\": 7}")?;
    Ok((name.parse().map_err(|error: punctual_core::name::Error| error.to_string())?, json.parse()?))
}
