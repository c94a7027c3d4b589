//! `punctual calendar`: which days count.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use punctual_core::command::Expect;
use punctual_core::name::Name;
use punctual_core::schedule::calendar::{Calendar as Rule, Entry};
use punctual_wire::calendar_file::{self, CalendarFile, Draft};
use punctual_wire::rest::{Calendar, Made};
use punctual_wire::yaml;

use super::failure::{Exit, Failure};
use super::output::{fields, one_line, print, text};
use super::paging::{gather, say_if_more};
use super::sources::sources;
use super::{Session, time};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Create or change the calendars in files
    #[command(after_help = "\
Examples:
  punctual calendar apply cn-workdays.yaml
  punctual calendar apply calendars/       every .yaml, .yml and .json in a folder

Every job that names a calendar follows its new days. If one calendar of all the files is wrong, nothing is applied.")]
    Apply(Apply),
    /// List the calendars of a namespace
    #[command(
        after_help = "Examples:\n  punctual calendar list\n  punctual calendar list -n payments -o json"
    )]
    List {
        /// The most to show
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Show one calendar
    #[command(after_help = "\
Examples:
  punctual calendar show cn-workdays
  punctual calendar show cn-workdays --file > cn-workdays.yaml   as a file, to edit and apply again")]
    Show {
        name: Name,
        /// Print it as a calendar file
        #[arg(long)]
        file: bool,
    },
    /// Show which days the calendar includes, and why
    #[command(after_help = "\
Examples:
  punctual calendar days cn-workdays                                    the next month
  punctual calendar days cn-workdays --from 2026-10-01 --to 2026-10-31")]
    Days {
        name: Name,
        /// The first day [default: today in UTC]
        #[arg(long, value_name = "DAY", value_parser = day)]
        from: Option<String>,
        /// The last day
        #[arg(long, value_name = "DAY", value_parser = day)]
        to: Option<String>,
    },
    /// Delete a calendar that no job uses
    #[command(after_help = "Example:\n  punctual calendar delete cn-workdays")]
    Delete { name: Name },
}

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// Files or folders with calendars, `-` for stdin
    #[arg(value_name = "FILE", required_unless_present = "file")]
    files: Vec<PathBuf>,
    /// The same, as an option
    #[arg(short, long = "file", value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Only check the files
    #[arg(long)]
    dry_run: bool,
}

/// Parses one day.
fn day(text: &str) -> Result<String, String> {
    match text.parse::<Entry>() {
        Ok(Entry::Span { first, last }) if first == last => Ok(text.to_owned()),
        Ok(_) => Err("must be one day, like 2026-10-01".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, .. } = session;
        match self {
            Verb::Apply(apply) => apply.run(session).await,
            Verb::List { limit } => list(session, limit).await,
            Verb::Show { name, file } => show(session, &name, file).await,
            Verb::Days { name, from, to } => days(session, &name, from.as_deref(), to.as_deref()).await,
            Verb::Delete { name } => {
                client.delete_calendar(namespace, &name).await?;
                print(&format!("deleted {namespace}/{name}"))
            }
        }
    }
}

impl Apply {
    async fn run(self, session: &Session) -> Result<(), Failure> {
        let drafts = self.read(session)?;
        if self.dry_run {
            return print(&format!("{} calendars are fine", drafts.len()));
        }
        let (mut calendars, mut said) = (Vec::new(), Vec::new());
        for draft in &drafts {
            let (namespace, name, file) = (&draft.namespace, &draft.name, form(draft));
            let put = match session.client.put_calendar(namespace, name, &file, Expect::Anything).await {
                Ok(put) => put,
                Err(error) => {
                    // Earlier calendars stay applied, so say which.
                    print(&said.join("\n"))?;
                    return Err(error.into());
                }
            };
            said.push(sentence(draft, put.made, &put.calendar));
            calendars.push(put.calendar);
        }
        session.output.show(&calendars, |_| said.join("\n"))
    }

    /// Every calendar of every file, or all errors in them.
    fn read(&self, session: &Session) -> Result<Vec<Draft>, Failure> {
        let (mut drafts, mut mistakes) = (Vec::new(), Vec::new());
        let mut names = BTreeSet::new();
        for source in sources(self.files.iter().chain(&self.file))? {
            match calendar_file::read_all(&source.text()?, &session.namespace) {
                Ok(read) => {
                    for draft in &read {
                        if !names.insert((draft.namespace.clone(), draft.name.clone())) {
                            mistakes.push(format!("{source}: calendar `{}` is given twice", draft.name));
                        }
                    }
                    drafts.extend(read);
                }
                Err(errors) => mistakes.extend(errors.iter().map(|error| format!("{source}: {error}"))),
            }
        }
        if mistakes.is_empty() {
            Ok(drafts)
        } else {
            Err(Failure::all(Exit::Refused, mistakes).hint("nothing was applied"))
        }
    }
}

fn form(draft: &Draft) -> CalendarFile {
    let rule = Rule { name: draft.name.clone(), version: 0, days: draft.days.clone() };
    CalendarFile {
        namespace: Some(draft.namespace.clone()),
        description: (!draft.description.is_empty()).then(|| draft.description.clone()),
        ..CalendarFile::of_days(&rule)
    }
}

fn sentence(draft: &Draft, made: Made, calendar: &Calendar) -> String {
    let subject = format!("{} {}/{}", made.as_str(), draft.namespace, draft.name);
    match made {
        Made::Unchanged => subject,
        Made::Created | Made::Changed if calendar.settled => {
            format!("{subject}, version {}", calendar.version)
        }
        Made::Created | Made::Changed => {
            format!("{subject}, version {}; jobs are still being re-planned", calendar.version)
        }
    }
}

async fn list(session: &Session, limit: usize) -> Result<(), Failure> {
    let (calendars, more) = gather(limit, async |after, size| {
        session.client.calendars(&session.namespace, after.as_deref(), size).await
    })
    .await?;
    session.output.show(&calendars, |output| {
        let now = wiring::now();
        let mut table =
            output.table(&["NAME", "VERSION", "CHANGED (UTC)", "WEEKLY", "IN", "OUT", "DESCRIPTION"]);
        for calendar in &calendars {
            let file = &calendar.file;
            table.add_row([
                file.calendar.as_ref().map(ToString::to_string).unwrap_or_default(),
                calendar.version.to_string(),
                output.time(calendar.updated_at.0, now),
                weekly(file),
                file.include.as_ref().map_or(0, Vec::len).to_string(),
                file.exclude.as_ref().map_or(0, Vec::len).to_string(),
                one_line(file.description.as_deref().unwrap_or("-"), 60),
            ]);
        }
        text(table)
    })?;
    say_if_more(more);
    Ok(())
}

async fn show(session: &Session, name: &Name, file: bool) -> Result<(), Failure> {
    let calendar = session.client.calendar(&session.namespace, name).await?;
    if file {
        return print(&yaml::to_string(&calendar.file).map_err(|error| Failure::new(Exit::Failed, error))?);
    }
    session.output.show(&calendar, |_| {
        let entries = |entries: Option<&Vec<punctual_wire::Text<Entry>>>| {
            let lines: Vec<String> = entries.into_iter().flatten().map(ToString::to_string).collect();
            (!lines.is_empty()).then(|| lines.join("\n"))
        };
        fields(&[
            ("calendar", Some(format!("{}/{name}", session.namespace))),
            ("description", calendar.file.description.clone()),
            ("version", Some(calendar.version.to_string())),
            ("weekly", Some(weekly(&calendar.file))),
            ("include", entries(calendar.file.include.as_ref())),
            ("exclude", entries(calendar.file.exclude.as_ref())),
            ("changed", Some(time::both(calendar.updated_at.0, wiring::now()))),
            ("jobs", (!calendar.settled).then(|| "some are still being re-planned".to_owned())),
        ])
    })
}

async fn days(session: &Session, name: &Name, from: Option<&str>, to: Option<&str>) -> Result<(), Failure> {
    let days = session.client.calendar_days(&session.namespace, name, from, to).await?.items;
    session.output.show(&days, |output| {
        let mut table = output.table(&["DAY", "WEEKDAY", "IS", "BY"]);
        for day in &days {
            let is = if day.is_in { "in" } else { "out" };
            table.add_row([day.day.clone(), day.weekday.to_string(), is.to_owned(), day.by.clone()]);
        }
        text(table)
    })
}

fn weekly(file: &CalendarFile) -> String {
    let days: Vec<String> = file.weekly.iter().flatten().map(ToString::to_string).collect();
    match days.len() {
        0 => "none".to_owned(),
        7 => "every day".to_owned(),
        _ => days.join(" "),
    }
}
