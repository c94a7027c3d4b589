//! The calendar file, which is also the body of a calendar in REST.

use punctual_core::job::check_description;
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::calendar::{Calendar, Days, ENTRIES_MAX, Entry, Record, Weekday, Weekly};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;
use crate::schema;
use crate::text::Text;
use crate::tree::Node;

/// Fields that the server adds to a calendar. They are accepted in a file and ignored.
pub const SAID_BY_THE_SERVER: [&str; 3] = ["version", "updated_at", "settled"];

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a calendar, a map with at least `calendar` and its days")]
pub struct CalendarFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Namespace>)]
    pub namespace: Option<Namespace>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub calendar: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The weekdays of the calendar. By default all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Weekday>>)]
    pub weekly: Option<Vec<Text<Weekday>>>,
    /// Days that belong to the calendar even if `weekly` or `exclude` leaves them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Days>>)]
    pub include: Option<Vec<Text<Entry>>>,
    /// Days that do not belong to the calendar, whatever their weekday.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Days>>)]
    pub exclude: Option<Vec<Text<Entry>>>,
}

/// A parsed calendar, ready to be put.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    pub namespace: Namespace,
    pub name: Name,
    pub days: Days,
    pub description: String,
}

/// Parses every calendar of a YAML or JSON file; `namespace` is the default. The errors have one entry per document.
pub fn read_all(text: &str, namespace: &Namespace) -> Result<Vec<Draft>, Vec<Error>> {
    let documents = Node::from_yaml(text).map_err(|error| vec![error])?;
    let (mut drafts, mut errors) = (Vec::new(), Vec::new());
    for document in documents {
        let read = read(document, |file| {
            file.namespace.get_or_insert_with(|| namespace.clone());
            Ok(())
        });
        match read {
            Ok(draft) => drafts.push(draft),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(drafts) } else { Err(errors) }
}

/// The calendar of a put request; the body may repeat the name of the URL, but not differ from it.
pub fn read_for(document: Node, namespace: &Namespace, name: &Name) -> Result<Draft, Error> {
    read(document, |file| {
        let differs = |field: &str, given: &str| {
            Error::invalid(
                field,
                format!("the URL names `{given}`; remove this field or write the same value"),
            )
        };
        if file.namespace.get_or_insert_with(|| namespace.clone()) != namespace {
            return Err(differs("namespace", namespace.as_str()));
        }
        if file.calendar.get_or_insert_with(|| name.clone()) != name {
            return Err(differs("calendar", name.as_str()));
        }
        Ok(())
    })
}

fn read(
    mut document: Node,
    complete: impl FnOnce(&mut CalendarFile) -> Result<(), Error>,
) -> Result<Draft, Error> {
    document.remove(&SAID_BY_THE_SERVER);
    let mut file: CalendarFile = document.to()?;
    complete(&mut file)?;
    file.into_draft().map_err(|error| Error { place: document.place_of(&error.field), ..error })
}

impl CalendarFile {
    fn into_draft(self) -> Result<Draft, Error> {
        let name = self.calendar.ok_or_else(|| Error::invalid("calendar", "a calendar needs a name"))?;
        let description = self.description.unwrap_or_default();
        check_description(&description)?;
        let weekly = match self.weekly {
            Some(weekly) => weekly.into_iter().map(|day| day.0).collect(),
            None => Weekly::EVERY_DAY,
        };
        let (include, exclude) = (self.include.unwrap_or_default(), self.exclude.unwrap_or_default());
        if include.len() + exclude.len() > ENTRIES_MAX {
            let field = if include.len() > exclude.len() { "include" } else { "exclude" };
            let message = format!("at most {ENTRIES_MAX} days and spans in both lists; a span counts once");
            return Err(Error::invalid(field, message));
        }
        let plain = |entries: Vec<Text<Entry>>| entries.into_iter().map(|entry| entry.0);
        let days = Days::new(weekly, plain(include), plain(exclude));
        if !days.may_have_any() {
            let message = "no day is in this calendar; name weekdays, or days under `include`";
            return Err(Error::invalid("weekly", message));
        }
        Ok(Draft { namespace: self.namespace.unwrap_or_default(), name, days, description })
    }

    /// A calendar as a file, with every default written out.
    pub fn of(record: &Record) -> CalendarFile {
        CalendarFile {
            namespace: Some(record.namespace.clone()),
            description: (!record.description.is_empty()).then(|| record.description.clone()),
            ..CalendarFile::of_days(&record.calendar)
        }
    }

    /// Only the fields that decide about days.
    pub fn of_days(calendar: &Calendar) -> CalendarFile {
        let days = &calendar.days;
        CalendarFile {
            calendar: Some(calendar.name.clone()),
            weekly: Some(days.weekly().days().map(Text).collect()),
            include: Some(days.include().map(Text).collect()),
            exclude: Some(days.exclude().map(Text).collect()),
            ..CalendarFile::default()
        }
    }
}

#[cfg(test)]
mod tests;
