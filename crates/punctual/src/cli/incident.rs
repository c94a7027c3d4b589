//! `punctual incident`: alerts that are open, or ended in the last week.

use std::time::Duration;

use clap::Subcommand;
use punctual_client::IncidentQuery;
use punctual_core::Timestamp;
use punctual_core::ids::IncidentId;
use punctual_core::name::Name;
use punctual_wire::Text;
use punctual_wire::rest::{ByHand, Comment, Incident, SilenceIncident};

use super::failure::Failure;
use super::output::{fields, one_line, text};
use super::paging::{gather, say_if_more};
use super::{Session, time};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the incidents that are open, the newest first
    #[command(
        after_help = "Examples:\n  punctual incident list -o json\n  punctual incident list --all --job nightly"
    )]
    List {
        /// Only incidents of this job
        #[arg(long)]
        job: Option<Name>,
        /// Also incidents that ended in the last week
        #[arg(long)]
        all: bool,
        /// The largest number of incidents to show
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Show one incident
    #[command(after_help = "Example:\n  punctual incident show 4683711365120")]
    Show { id: IncidentId },
    /// Say that you know about an incident: it is not repeated any more
    #[command(after_help = "Example:\n  punctual incident ack 4683711365120 --comment 'the disk is full'")]
    Ack {
        id: IncidentId,
        /// What is known; it is recorded with your token's name
        #[arg(long, value_name = "TEXT", default_value = "")]
        comment: String,
    },
    /// Send nothing about an incident for a while
    #[command(after_help = "\
Examples:
  punctual incident silence 4683711365120 --for 8h --comment 'until the morning'
  punctual incident silence 4683711365120 --off")]
    Silence {
        id: IncidentId,
        /// How long
        #[arg(long = "for", value_name = "DURATION", value_parser = time::duration)]
        span: Option<Duration>,
        /// Until when
        #[arg(long, value_name = "INSTANT", conflicts_with = "span")]
        until: Option<Timestamp>,
        /// End the silence
        #[arg(long, conflicts_with_all = ["span", "until"], required_unless_present_any = ["span", "until"])]
        off: bool,
        /// Why; it is recorded with your token's name
        #[arg(long, value_name = "TEXT", default_value = "")]
        comment: String,
    },
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, output } = session;
        match self {
            Verb::List { job, all, limit } => {
                let query = IncidentQuery { job, open: Some(!all), ..IncidentQuery::default() };
                let read = async |after, size| {
                    let query = IncidentQuery { after, limit: Some(size), ..query.clone() };
                    client.incidents(namespace, &query).await
                };
                let (incidents, more) = gather(limit, read).await?;
                output.show(&incidents, |_| table(session, &incidents))?;
                say_if_more(more);
                Ok(())
            }
            Verb::Show { id } => {
                let incident = client.incident(namespace, id).await?;
                output.show(&incident, |_| describe(&incident))
            }
            Verb::Ack { id, comment } => {
                let incident = client.acknowledge_incident(namespace, id, &Comment { comment }).await?;
                output.show(&incident, |_| format!("acknowledged {id}"))
            }
            Verb::Silence { id, span, until, off: _, comment } => {
                let until = until.or(span.map(|span| wiring::now() + span)).map(Text);
                let incident =
                    client.silence_incident(namespace, id, &SilenceIncident { until, comment }).await?;
                output.show(&incident, |_| match until {
                    Some(until) => format!("silenced {id} until {}", time::both(until.0, wiring::now())),
                    None => format!("ended the silence of {id}"),
                })
            }
        }
    }
}

/// The job, the step or the channel that it is about.
fn subject(incident: &Incident) -> String {
    match (&incident.job, &incident.channel) {
        (Some(job), _) => match &incident.step {
            Some(step) => format!("{job}, step {step}"),
            None => job.to_string(),
        },
        (None, Some(channel)) => format!("channel {channel}"),
        (None, None) => "-".to_owned(),
    }
}

fn state(incident: &Incident) -> &'static str {
    match incident {
        Incident { ended_at: Some(_), .. } => "over",
        Incident { silence: Some(_), .. } => "silenced",
        Incident { acknowledged: Some(_), .. } => "acknowledged",
        _ => "open",
    }
}

fn table(session: &Session, incidents: &[Incident]) -> String {
    let now = wiring::now();
    let titles = ["ID", "JOB", "STATE", "SINCE (UTC)", "COUNT", "CONDITION"];
    let mut table = session.output.table(&titles).sparing(&["COUNT", "SINCE (UTC)"]);
    for incident in incidents {
        let why = match incident.error.as_str() {
            "" => incident.condition.clone(),
            error => format!("{}: {}", incident.condition, one_line(error, 60)),
        };
        table.add_row([
            incident.id.to_string(),
            subject(incident),
            state(incident).to_owned(),
            session.output.time(incident.opened_at.0, now),
            incident.count.to_string(),
            why,
        ]);
    }
    text(table)
}

fn describe(incident: &Incident) -> String {
    let now = wiring::now();
    let at = |at: Text<Timestamp>| time::both(at.0, now);
    let told = |by: &ByHand| {
        let who = by.by.as_ref().map_or(String::new(), |by| format!("by {by}, "));
        let why = if by.comment.is_empty() { String::new() } else { format!(": {}", by.comment) };
        format!("{who}{}{why}", at(by.at))
    };
    let notified = match incident.notified {
        1 => format!("once, {}", at(incident.notified_at)),
        times => format!("{times} times, last {}", at(incident.notified_at)),
    };
    let silence = incident.silence.as_ref();
    fields(&[
        ("about", Some(subject(incident))),
        ("condition", Some(incident.condition.clone())),
        ("state", Some(state(incident).to_owned())),
        ("opened", Some(at(incident.opened_at))),
        ("over", incident.ended_at.map(at)),
        ("last met", Some(format!("{} ({} in all)", at(incident.last_at), incident.count))),
        ("run", incident.run.map(|run| run.to_string())),
        ("error", Some(incident.error.clone()).filter(|error| !error.is_empty())),
        ("notified", Some(notified)),
        ("acknowledged", incident.acknowledged.as_ref().map(told)),
        ("silenced", silence.map(|silence| format!("until {}, {}", at(silence.until), told(&silence.by)))),
    ])
}
