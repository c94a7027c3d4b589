//! The filters: what may follow `|`. Each is bounded in its result. None reads a clock or a file.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::dates;
use super::value::{Made, Value, compare, number};
use super::work::{Work, written};

#[derive(Debug)]
pub(super) struct Filter {
    pub(super) name: &'static str,
    pub(super) args: RangeInclusive<usize>,
    pub(super) apply: Apply,
}

type Apply = fn(&Value, &[Value], &mut Work) -> Made;

const fn filter(name: &'static str, args: RangeInclusive<usize>, apply: Apply) -> Filter {
    Filter { name, args, apply }
}

static FILTERS: [Filter; 26] = [
    filter("date", 0..=0, dates::date),
    filter("time", 0..=0, dates::time),
    filter("format", 1..=1, dates::format),
    filter("in_zone", 1..=1, dates::in_zone),
    filter("plus", 1..=1, dates::plus),
    filter("minus", 1..=1, dates::minus),
    filter("unix", 0..=0, dates::unix),
    filter("json", 0..=0, json),
    filter("parse_json", 0..=0, parse_json),
    filter("urlencode", 0..=0, urlencode),
    filter("upper", 0..=0, |value, _, work| mapped(value, work, str::to_uppercase)),
    filter("lower", 0..=0, |value, _, work| mapped(value, work, str::to_lowercase)),
    filter("trim", 0..=0, |value, _, work| mapped(value, work, |text| text.trim().to_owned())),
    filter("replace", 2..=2, replace),
    filter("split", 1..=1, split),
    filter("join", 0..=1, join),
    filter("length", 0..=0, length),
    filter("first", 0..=0, |value, _, _| end(value, <[Value]>::first)),
    filter("last", 0..=0, |value, _, _| end(value, <[Value]>::last)),
    filter("min", 0..=0, |value, _, work| extreme(value, work, std::cmp::Ordering::Less)),
    filter("max", 0..=0, |value, _, work| extreme(value, work, std::cmp::Ordering::Greater)),
    filter("string", 0..=0, |value, _, work| written(value, work).map(Value::Text)),
    filter("int", 0..=0, int),
    filter("float", 0..=0, float),
    filter("round", 0..=1, round),
    filter("abs", 0..=0, abs),
];

pub(super) fn find(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|filter| filter.name == name)
}

pub(super) fn names() -> String {
    FILTERS.iter().map(|filter| filter.name).collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> Result<&Arc<str>, String> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(format!("a text is needed, this is {}", other.kind())),
    }
}

fn list(value: &Value) -> Result<&Arc<[Value]>, String> {
    match value {
        Value::List(items) => Ok(items),
        other => Err(format!("a list is needed, this is {}", other.kind())),
    }
}

fn mapped(value: &Value, work: &mut Work, map: fn(&str) -> String) -> Made {
    let text = text(value)?;
    // A character may become three times as long.
    work.bytes(text.len())?;
    Ok(Value::text(map(text)))
}

fn json(value: &Value, _: &[Value], work: &mut Work) -> Made {
    work.items(value.weight())?;
    let text = value.to_json().to_string();
    work.bytes(text.len())?;
    Ok(Value::text(text))
}

fn parse_json(value: &Value, _: &[Value], work: &mut Work) -> Made {
    let text = text(value)?;
    // Two bytes of JSON may become a value of forty.
    work.spend(text.len() / 128)?;
    Value::from_json(text).ok_or_else(|| "the text is no JSON".to_owned())
}

/// Percent-encodes everything but letters, digits and `-._~`, so that the text stays one part of a URL.
fn urlencode(value: &Value, _: &[Value], work: &mut Work) -> Made {
    let text = written(value, work)?;
    work.bytes(text.len() * 3)?;
    Ok(Value::text(percent_encoded(&text)))
}

pub(super) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn replace(value: &Value, args: &[Value], work: &mut Work) -> Made {
    let (whole, [from, to]) = (text(value)?, args) else { return Err("takes two texts".to_owned()) };
    let (from, to) = (text(from)?, text(to)?);
    if from.is_empty() {
        return Err("nothing cannot be replaced".to_owned());
    }
    work.bytes(whole.len())?;
    let found = whole.matches(&**from).count();
    work.bytes(whole.len() - found * from.len() + found.saturating_mul(to.len()))?;
    Ok(Value::text(whole.replace(&**from, to)))
}

fn split(value: &Value, args: &[Value], work: &mut Work) -> Made {
    let (whole, by) = (text(value)?, text(&args[0])?);
    if by.is_empty() {
        return Err("a text cannot be split by nothing".to_owned());
    }
    work.bytes(whole.len())?;
    work.items(whole.matches(&**by).count())?;
    Ok(Value::List(whole.split(&**by).map(Value::text).collect()))
}

fn join(value: &Value, args: &[Value], work: &mut Work) -> Made {
    let items = list(value)?;
    let by = args.first().map(text).transpose()?.map_or("", |by| by);
    let mut joined = String::new();
    for (number, item) in items.iter().enumerate() {
        let item = written(item, work)?;
        if number > 0 {
            joined.push_str(by);
        }
        joined.push_str(&item);
        if joined.len() > crate::limits::EXPRESSION_RESULT_BYTES_MAX {
            break;
        }
    }
    work.items(items.len())?;
    work.bytes(joined.len())?;
    Ok(Value::text(joined))
}

fn length(value: &Value, _: &[Value], work: &mut Work) -> Made {
    let length = match value {
        Value::Text(text) => {
            work.bytes(text.len())?;
            text.chars().count()
        }
        Value::List(items) => items.len(),
        Value::Map(entries) => entries.len(),
        other => return Err(format!("{} has no length", other.kind())),
    };
    Ok(Value::Int(length as i128))
}

fn end(value: &Value, which: fn(&[Value]) -> Option<&Value>) -> Made {
    which(list(value)?).cloned().ok_or_else(|| "the list is empty".to_owned())
}

fn extreme(value: &Value, work: &mut Work, wanted: std::cmp::Ordering) -> Made {
    let items = list(value)?;
    work.items(items.len())?;
    let mut best: Option<&Value> = None;
    for item in items.iter() {
        if best.is_none_or(|best| compare(item, best) == Some(wanted)) {
            best = Some(item);
        } else if best.is_some_and(|best| compare(item, best).is_none()) {
            return Err("the items cannot be compared".to_owned());
        }
    }
    best.cloned().ok_or_else(|| "the list is empty".to_owned())
}

fn int(value: &Value, _: &[Value], _: &mut Work) -> Made {
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Bool(value) => Ok(Value::Int(i128::from(*value))),
        Value::Float(number) => whole(number.trunc()),
        Value::Text(text) => match text.trim().parse::<i128>() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => Err("the text is no whole number".to_owned()),
        },
        other => Err(format!("a number is needed, this is {}", other.kind())),
    }
}

fn whole(number: f64) -> Made {
    // Above this a float cannot hold every integer.
    if number.abs() <= 9_007_199_254_740_992.0 {
        return Ok(Value::Int(number as i128));
    }
    Err("the number is too large".to_owned())
}

fn float(value: &Value, _: &[Value], _: &mut Work) -> Made {
    match value {
        Value::Text(text) => match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            _ => Err("the text is no number".to_owned()),
        },
        other => number(other).map(Value::Float),
    }
}

fn round(value: &Value, args: &[Value], _: &mut Work) -> Made {
    let digits = match args {
        [] => 0,
        [Value::Int(digits @ 0..=15)] => i32::try_from(*digits).unwrap_or(0),
        _ => return Err("rounds to 0 to 15 digits".to_owned()),
    };
    match value {
        Value::Int(_) => Ok(value.clone()),
        other => {
            let (number, scale) = (number(other)?, 10_f64.powi(digits));
            let rounded = (number * scale).round() / scale;
            if digits == 0 { whole(rounded) } else { Ok(Value::Float(rounded)) }
        }
    }
}

fn abs(value: &Value, _: &[Value], _: &mut Work) -> Made {
    match value {
        Value::Int(number) => {
            number.checked_abs().map(Value::Int).ok_or_else(|| "the number is too large".to_owned())
        }
        other => number(other).map(|number| Value::Float(number.abs())),
    }
}
