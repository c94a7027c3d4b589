//! `punctual job explain`: what a cron expression means.

use clap::{Args, ValueEnum};
use punctual_client::CronQuery;
use punctual_core::Timestamp;
use punctual_core::name::Name;
use punctual_core::schedule;
use punctual_wire::Text;
use punctual_wire::rest::Occurrence;

use super::Session;
use super::failure::Failure;
use super::output::fields;
use super::time;
use crate::wiring;

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The expression, in quotes
    #[arg(value_name = "CRON")]
    expression: String,
    /// The zone whose clocks it goes by, such as Asia/Shanghai; UTC if left out
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// How weekdays are numbered: 0-7 from Sunday, or 1-7 as Quartz counts
    #[arg(long, value_enum, default_value_t = Weekdays::Unix)]
    weekdays: Weekdays,
    /// How many occurrences to show
    #[arg(long)]
    count: Option<usize>,
    /// The language of the words
    #[arg(long, value_enum)]
    lang: Option<Lang>,
    /// Show what comes after this instant, instead of now
    #[arg(long, value_name = "INSTANT")]
    from: Option<Timestamp>,
    /// The job that `H` picks its values for
    #[arg(long, value_name = "NAME")]
    job: Option<Name>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Weekdays {
    Unix,
    Quartz,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Lang {
    En,
    Zh,
}

impl Explain {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let query = self.query(session);
        let explained = session.client.explain_cron(&query).await?;
        session.output.show(&explained, |_| {
            let now = wiring::now();
            let line = |at: &Occurrence| match query.from {
                // Relative to now is useless when another instant was asked for.
                Some(_) => at.local.clone(),
                None => format!("{}  ({})", at.local, time::relative(at.due_at.0, now)),
            };
            let next = match &explained.next[..] {
                [] => "never again".to_owned(),
                next => next.iter().map(line).collect::<Vec<_>>().join("\n"),
            };
            fields(&[
                ("cron", Some(explained.expression.clone())),
                ("in words", Some(explained.description.clone())),
                ("next", Some(next)),
                ("previous", explained.previous.as_ref().map(line)),
            ])
        })
    }

    fn query(self, session: &Session) -> CronQuery {
        CronQuery {
            expression: self.expression,
            timezone: self.timezone,
            weekdays: Some(match self.weekdays {
                Weekdays::Unix => schedule::Weekdays::Unix,
                Weekdays::Quartz => schedule::Weekdays::Quartz,
            }),
            count: self.count,
            lang: self.lang.map(|lang| match lang {
                Lang::En => "en".to_owned(),
                Lang::Zh => "zh".to_owned(),
            }),
            from: self.from.map(Text),
            spread_key: self.job.map(|job| format!("{}/{job}", session.namespace)),
        }
    }
}
