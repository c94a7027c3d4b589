//! JSON Schema of the wire objects, for the OpenAPI document.
//!
//! Most of it is derived from the types. This module has the rest: the types of `core`, which does not know
//! the wire; types with hand-written parsers; and, in [`components`], rules that involve several fields.

mod components;

use serde_json::json;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use punctual_core::ids::ID_BYTES_MAX;
use punctual_core::limits;
use punctual_core::schedule::calendar;
use punctual_core::topic;

use crate::resp::ID_BYTES;

pub use components::Components;

/// The id of a run or a job, or a token number, as text: JavaScript numbers cannot hold 63 bits.
#[derive(Debug)]
pub struct Id;
/// The name of a job or a calendar.
#[derive(Debug)]
pub struct Name;
/// A namespace in a body.
#[derive(Debug)]
pub struct Namespace;
/// How a cron expression numbers weekdays.
#[derive(Debug)]
pub struct Weekdays;
/// Which ends of the runs of another job start a job.
#[derive(Debug)]
pub struct Ends;
/// A day of the week.
#[derive(Debug)]
pub struct Weekday;
/// An entry of a calendar.
#[derive(Debug)]
pub struct Days;

/// The name of a queue.
#[derive(Debug)]
pub struct QueueName;
/// The id of a message, the same for every endpoint.
#[derive(Debug)]
pub struct MessageId;

/// Gives a type a hand-written schema, and names the schemas that it refers to.
macro_rules! by_hand {
    ($type:ty as $name:literal: $schema:expr $(; $($other:ty),+)?) => {
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $schema
            }
        }

        impl utoipa::ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn schemas(all: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
                let _ = &all;
                $($(
                    all.push((<$other as utoipa::ToSchema>::name().into_owned(), <$other as utoipa::PartialSchema>::schema()));
                    <$other as utoipa::ToSchema>::schemas(all);
                )+)?
            }
        }
    };
}
pub(crate) use by_hand;

/// The segments of a namespace, with the allowed separators.
macro_rules! segments {
    ($between:literal) => {
        concat!("^[a-z0-9-]+(", $between, "[a-z0-9-]+)*$")
    };
}

/// A pattern for a day of every year.
macro_rules! day {
    () => {
        "(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    };
}

/// A pattern for a date.
macro_rules! date {
    () => {
        concat!("(19[7-9][0-9]|[2-9][0-9]{3})-", day!())
    };
}

by_hand!(Id as "Id": text(
    "A number of up to 63 bits, as text.",
    "^([0-9]{1,18}|[0-8][0-9]{18}|9[01][0-9]{17}|92[01][0-9]{16})$",
    ID_BYTES_MAX,
    "1234567890123456789",
));
by_hand!(Name as "Name": text("The name of a job or a calendar.", "^(?![.]{1,2}$)[A-Za-z0-9._-]+$", limits::NAME_BYTES_MAX, "nightly-settlement"));
by_hand!(Namespace as "Namespace": text(
    "A department; `payments/clearing` is inside `payments`.",
    segments!("/"),
    limits::NAME_BYTES_MAX,
    "payments",
));

by_hand!(QueueName as "QueueName": any_text("The name of a queue: any text.", limits::QUEUE_NAME_BYTES_MAX, "mail"));
by_hand!(MessageId as "MessageId": text(
    "The id of a message, as over the Redis protocol; in an address `+` and `/` are percent-encoded.",
    "^D-[0-9a-f]{8}-[A-Za-z0-9+/]{24}-[0-9a-f]{4}$",
    ID_BYTES,
    "D-0a1b2c3d-AAAAAAAAAAAAAAAAAAAAAAAA-05a1",
));
by_hand!(Ends as "Ends": words(topic::Ends::ALL.map(topic::Ends::as_str)));
by_hand!(Weekdays as "Weekdays": words(["unix", "quartz"]));
by_hand!(Weekday as "Weekday": words(calendar::Weekday::ALL.map(calendar::Weekday::as_str)));
by_hand!(Days as "Days": text(
    "A day, a span of days with both ends, or a day of every year.",
    concat!("^(", date!(), "|", date!(), "[.]{2}", date!(), "|", day!(), ")$"),
    "2026-10-01..2026-10-07".len(),
    "2026-10-01",
));

/// A date in a query.
pub fn date() -> RefOr<Schema> {
    text("A day.", concat!("^", date!(), "$"), "2026-10-01".len(), "2026-10-01")
}

/// A namespace in a URL, where a dot stands for the slash.
pub fn dotted_namespace() -> RefOr<Schema> {
    let description = "A namespace; the slash is written as a dot, `payments.clearing`.";
    text(description, segments!("[./]"), limits::NAME_BYTES_MAX, "default")
}

/// A text with a pattern.
pub fn text(description: &str, pattern: &str, bytes_max: usize, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .pattern(Some(pattern))
        .max_length(Some(bytes_max))
        .examples([json!(example)])
        .into()
}

/// Any text that is not empty. Without a pattern, because regex dialects differ here.
fn any_text(description: &str, bytes_max: usize, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .min_length(Some(1))
        .max_length(Some(bytes_max))
        .examples([json!(example)])
        .into()
}

pub(crate) fn instant(bytes_max: usize) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("RFC 3339 with an offset; written in UTC with milliseconds."))
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .max_length(Some(bytes_max))
        .examples([json!("2026-12-01T08:00:00.000Z")])
        .into()
}

pub(crate) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
}

pub(crate) fn any_of_types<const N: usize>(types: [Type; N]) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(types.into_iter().collect::<SchemaType>()).into()
}

pub(crate) fn one_of(schemas: impl IntoIterator<Item = RefOr<Schema>>) -> RefOr<Schema> {
    schemas.into_iter().fold(OneOfBuilder::new(), OneOfBuilder::item).into()
}

/// A reference to a type's schema.
pub(crate) fn of<T: ToSchema>() -> RefOr<Schema> {
    utoipa::openapi::Ref::from_schema_name(T::name()).into()
}

pub(crate) fn list_of<T: ToSchema>() -> RefOr<Schema> {
    ArrayBuilder::new().items(of::<T>()).into()
}

/// A type's schema as JSON.
fn json_of<T: PartialSchema>() -> serde_json::Value {
    // A schema consists of strings, numbers and maps, so it always has a JSON form.
    serde_json::to_value(T::schema()).unwrap_or_default()
}

#[cfg(test)]
mod check;
#[cfg(test)]
mod tests;
