//! A schedule in words, so that its author can check it.
//!
//! The words are exact: two schedules with different due times have different texts. The meaning is computed once, in
//! the outline of an expression; a language only words it.

mod chinese;
mod english;

use std::str::FromStr;
use std::time::Duration;

use super::{Cron, Schedule, When};
use crate::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Language {
    #[default]
    English,
    Chinese,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the languages are en and zh")]
pub struct UnknownLanguage;

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(text: &str) -> Result<Self, UnknownLanguage> {
        match text {
            "en" => Ok(Language::English),
            "zh" => Ok(Language::Chinese),
            _ => Err(UnknownLanguage),
        }
    }
}

impl Schedule {
    /// When it fires, and within which bounds.
    pub fn describe(&self, language: Language) -> String {
        let bounds = Bounds {
            calendar: self.calendar.as_ref().map(|keeping| keeping.name.as_str()),
            start: self.start,
            end: self.end,
            max_runs: self.max_runs,
            jitter: (!self.jitter.is_zero()).then_some(self.jitter),
        };
        let when = self.when.describe(language);
        match language {
            Language::English => english::bounded(when, &bounds),
            Language::Chinese => chinese::bounded(when, &bounds),
        }
    }
}

impl When {
    pub fn describe(&self, language: Language) -> String {
        match (self, language) {
            (When::Cron(cron), _) => cron.describe(language),
            (When::Every(period), Language::English) => english::every(*period),
            (When::Every(period), Language::Chinese) => chinese::every(*period),
            (When::AfterFinish(pause), Language::English) => english::after_finish(*pause),
            (When::AfterFinish(pause), Language::Chinese) => chinese::after_finish(*pause),
            (When::At(at), Language::English) => english::at(*at),
            (When::At(at), Language::Chinese) => chinese::at(*at),
            (When::Manual, Language::English) => english::MANUAL.to_owned(),
            (When::Manual, Language::Chinese) => chinese::MANUAL.to_owned(),
            (When::After(after), Language::English) => english::after(after),
            (When::After(after), Language::Chinese) => chinese::after(after),
            (When::Event(event), Language::English) => english::event(event),
            (When::Event(event), Language::Chinese) => chinese::event(event),
        }
    }
}

impl Cron {
    pub fn describe(&self, language: Language) -> String {
        let outline = self.outline();
        match language {
            Language::English => english::cron(&outline, self.zone()),
            Language::Chinese => chinese::cron(&outline, self.zone()),
        }
    }
}

/// The limits of a schedule of any kind.
struct Bounds<'a> {
    calendar: Option<&'a str>,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    max_runs: Option<u32>,
    jitter: Option<Duration>,
}

/// An instant without zero milliseconds.
fn instant(at: Timestamp) -> String {
    at.to_string().replace(".000Z", "Z")
}

/// The count of each unit in a duration, the largest first; zero parts are left out.
fn counts(span: Duration) -> Vec<(u64, usize)> {
    const SIZES: [u64; 6] = [604_800_000, 86_400_000, 3_600_000, 60_000, 1_000, 1];
    let mut rest = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let mut counts = Vec::new();
    for (unit, size) in SIZES.into_iter().enumerate() {
        // Weeks only for a whole number of weeks: "a week and a day" reads badly.
        if rest >= size && (unit > 0 || rest.is_multiple_of(size)) {
            counts.push((rest / size, unit));
            rest %= size;
        }
    }
    counts
}

#[cfg(test)]
mod tests;
