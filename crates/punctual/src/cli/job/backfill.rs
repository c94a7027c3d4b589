//! `punctual job backfill`: makes up for the due times of a job in a span of time.

use std::str::FromStr;

use clap::Args;
use punctual_core::Timestamp;
use punctual_core::name::Name;
use punctual_wire::Text;
use punctual_wire::job_file::JsonObject;
use punctual_wire::rest::{self, BackfillJob, BackfillLimits};
use serde_json::Value;

use super::Params;
use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::cli::{Session, run, time};
use crate::wiring;

pub(super) const EXAMPLES: &str = "\
Examples:
  punctual job backfill report --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --dry-run
  punctual job backfill report --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --running 4
  punctual job backfill report --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --param region=east

Each due time of the schedule gets a run, unless it has one. `punctual run pause`, `resume` and `cancel` work on the
run that is printed, and `punctual run list --parent` lists the runs of the due times.";

/// Due times that are left out, as far as they are printed.
const LISTED_MAX: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct Backfill {
    name: Name,
    /// The beginning of the span of time; a due time in this instant belongs to it
    #[arg(long, value_name = "INSTANT")]
    from: Timestamp,
    /// The end of the span of time; a due time in this instant does not belong to it
    #[arg(long, value_name = "INSTANT")]
    to: Timestamp,
    /// A parameter of the runs; the value is JSON or, if it is not, a text. Replaces the job's own parameters
    #[arg(long = "param", value_name = "NAME=VALUE")]
    param: Vec<Param>,
    /// All parameters of the runs, as a JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "param")]
    params: Option<Params>,
    /// How many of its runs are active at once [default: `limits.running` of the job; without it 1, or all if `overlap`
    /// is `allow`]
    #[arg(long, value_name = "N")]
    running: Option<u32>,
    /// Start with the newest due time
    #[arg(long)]
    newest_first: bool,
    /// Only print what it would do
    #[arg(long)]
    dry_run: bool,
    /// Wait until the backfill has ended; exit code 0 means success
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
}

/// One parameter on the command line.
#[derive(Debug, Clone, PartialEq)]
struct Param(String, Value);

impl FromStr for Param {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, as in region=east")?;
        if name.is_empty() {
            return Err("the name before the `=` is empty".to_owned());
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        Ok(Param(name.to_owned(), value))
    }
}

impl Backfill {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, output } = session;
        let (name, wait, dry_run) = (self.name.clone(), self.wait, self.dry_run);
        let told = client.backfill_job(namespace, &name, &self.into_wire()).await?;
        match &told.run {
            Some(made) if wait => run::follow(session, made.clone(), true).await,
            _ => {
                output.show(&told, |output| describe(&told, &format!("{namespace}/{name}"), dry_run, output))
            }
        }
    }

    fn into_wire(self) -> BackfillJob {
        let listed: JsonObject = self.param.into_iter().map(|Param(name, value)| (name, value)).collect();
        let listed = if listed.is_empty() { None } else { Some(listed) };
        BackfillJob {
            from: Some(Text(self.from)),
            to: Some(Text(self.to)),
            params: self.params.map(|params| params.0).or(listed),
            limits: self.running.map(|running| BackfillLimits { running: Some(running) }),
            newest_first: self.newest_first,
            dry_run: self.dry_run,
        }
    }
}

/// What the backfill does, or would do.
fn describe(told: &rest::Backfill, job: &str, dry_run: bool, output: Output) -> String {
    let now = wiring::now();
    let runs = if told.total == 1 { "1 run".to_owned() } else { format!("{} runs", told.total) };
    let mut lines = Vec::new();
    lines.push(match &told.run {
        Some(made) => format!("run {} backfills {job} with {runs}", made.id),
        None if dry_run => format!("a backfill of {job} would start {runs}"),
        None => format!("no due time of {job} is without a run: nothing was started"),
    });
    if let (Some(first), Some(last)) = (told.first_due_at, told.last_due_at) {
        lines.push(format!("first due  {}", time::both(first.0, now)));
        lines.push(format!("last due   {}", time::both(last.0, now)));
    }
    if !told.left_out.is_empty() {
        lines.push(format!("left out   {}, because they have a run:", told.left_out.len()));
    }
    for left in told.left_out.iter().take(LISTED_MAX) {
        let run = left.run.map_or("the schedule starts it now".to_owned(), |run| format!("run {run}"));
        lines.push(format!("  {}  {run}", output.time(left.due_at.0, now)));
    }
    if told.left_out.len() > LISTED_MAX {
        lines.push(format!("  and {} more; -o json lists all", told.left_out.len() - LISTED_MAX));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_parameter_is_json_or_else_a_text() {
        let read = |text: &str| text.parse::<Param>().map(|Param(_, value)| value);
        assert_eq!(read("day=7"), Ok(json!(7)));
        assert_eq!(read("region=east"), Ok(json!("east")));
        assert_eq!(read("filter=a=b"), Ok(json!("a=b")));
        assert!(read("region").is_err() && read("=east").is_err());
    }
}
