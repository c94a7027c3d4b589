//! Filters for instants: format, zone, and adding or subtracting a span.

use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Span, Zoned};

use super::value::{Made, Value};
use super::work::Work;

/// Bytes of a format or a span: far more than any real one.
const ARGUMENT_BYTES_MAX: usize = 256;

pub(super) fn date(value: &Value, _: &[Value], _: &mut Work) -> Made {
    written(&instant(value)?, "%Y-%m-%d")
}

pub(super) fn time(value: &Value, _: &[Value], _: &mut Work) -> Made {
    written(&instant(value)?, "%H:%M:%S")
}

pub(super) fn format(value: &Value, args: &[Value], _: &mut Work) -> Made {
    written(&instant(value)?, argument(args)?)
}

pub(super) fn in_zone(value: &Value, args: &[Value], _: &mut Work) -> Made {
    let name = argument(args)?;
    let zone = TimeZone::get(name).map_err(|_| {
        format!("unknown time zone `{name}`; write an IANA name such as Asia/Shanghai or UTC")
    })?;
    Ok(Value::Instant(Box::new(instant(value)?.with_time_zone(zone))))
}

pub(super) fn plus(value: &Value, args: &[Value], _: &mut Work) -> Made {
    moved(instant(value)?.checked_add(span(args)?))
}

pub(super) fn minus(value: &Value, args: &[Value], _: &mut Work) -> Made {
    moved(instant(value)?.checked_sub(span(args)?))
}

pub(super) fn unix(value: &Value, _: &[Value], _: &mut Work) -> Made {
    Ok(Value::Int(instant(value)?.timestamp().as_second().into()))
}

/// An instant, or a text that is parsed as one.
fn instant(value: &Value) -> Result<Zoned, String> {
    match value {
        Value::Instant(instant) => Ok((**instant).clone()),
        Value::Text(text) => {
            let instant = text.parse::<jiff::Timestamp>();
            let instant =
                instant.map_err(|_| "the text is no instant; write it like 2026-12-01T08:00:00+08:00")?;
            Ok(instant.to_zoned(TimeZone::UTC))
        }
        other => Err(format!("an instant is needed, this is {}", other.kind())),
    }
}

fn argument(args: &[Value]) -> Result<&str, String> {
    match args {
        [Value::Text(text)] if text.len() <= ARGUMENT_BYTES_MAX => Ok(text),
        [Value::Text(_)] => Err(format!("the argument has more than {ARGUMENT_BYTES_MAX} bytes")),
        _ => Err("the argument is a text in quotes".to_owned()),
    }
}

fn written(instant: &Zoned, format: &str) -> Made {
    let text = strtime::format(format, instant);
    text.map(Value::text).map_err(|_| format!("`{format}` is no format; write it like %Y-%m-%d %H:%M"))
}

/// Days, weeks, months and years follow the calendar of the zone; shorter units are elapsed time.
fn span(args: &[Value]) -> Result<Span, String> {
    let text = argument(args)?;
    let plain = text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let span = plain.then(|| text.parse::<Span>().ok()).flatten();
    span.ok_or_else(|| format!("`{text}` is no span; write it like 1d, 2h30m, 1mo or 1y"))
}

fn moved(instant: Result<Zoned, jiff::Error>) -> Made {
    let instant = instant.ok().filter(|instant| (1..=9998).contains(&instant.year()));
    instant
        .map(|instant| Value::Instant(Box::new(instant)))
        .ok_or_else(|| "lies outside the years 1 to 9998".to_owned())
}
