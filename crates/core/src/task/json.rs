//! JSON in which every string is a template.

use serde_json::Value as Json;

use super::process::template;
use crate::invalid::Invalid;
use crate::limits::EXPRESSIONS_MAX;
use crate::template::{Scope, Value, Values};

/// Refuses a text that is no JSON or has a bad template; the error names the field.
pub(super) fn check_json(field: &'static str, text: &str, scope: &Scope<'_>) -> Result<Json, Invalid> {
    let json = parsed(field, text)?;
    check_strings(json.clone(), field, scope)?;
    Ok(json)
}

/// Checks each string of a JSON value as a template.
pub(crate) fn check_strings(json: Json, field: &'static str, scope: &Scope<'_>) -> Result<(), Invalid> {
    let mut templates = 0;
    let mut check = |at: &str, text: &str| {
        templates += usize::from(!template(at, text, scope)?.is_literal());
        if templates > EXPRESSIONS_MAX {
            let message = format!("at most {EXPRESSIONS_MAX} texts with expressions in it");
            return Err(Invalid::new(field, message));
        }
        Ok(Json::Null)
    };
    each_string(json, field, &mut check).map(|_| ())
}

/// The JSON with every expression evaluated.
pub(crate) fn render_json(field: &'static str, text: &str, values: &Values) -> Result<Json, Invalid> {
    let mut fill = |at: &str, text: &str| {
        let value = template(at, text, &Scope::CHECKED_TASK)?.evaluate(values);
        value
            .map(|value: Value| value.to_json())
            .map_err(|error| Invalid::new(at.to_owned(), error.in_text(text)))
    };
    each_string(parsed(field, text)?, field, &mut fill)
}

fn parsed(field: &'static str, text: &str) -> Result<Json, Invalid> {
    serde_json::from_str(text).map_err(|_| Invalid::new(field, "is no JSON"))
}

/// Replaces each string of a JSON value; the keys stay.
fn each_string(
    json: Json,
    field: &str,
    replace: &mut dyn FnMut(&str, &str) -> Result<Json, Invalid>,
) -> Result<Json, Invalid> {
    Ok(match json {
        Json::String(text) => replace(field, &text)?,
        Json::Array(items) => {
            let items = items.into_iter().enumerate();
            let items = items.map(|(index, item)| each_string(item, &format!("{field}[{index}]"), replace));
            items.collect::<Result<Json, Invalid>>()?
        }
        Json::Object(entries) => {
            let entries = entries.into_iter().map(|(key, value)| {
                let value = each_string(value, &format!("{field}.{}", short(&key)), replace)?;
                Ok((key, value))
            });
            Json::Object(entries.collect::<Result<_, Invalid>>()?)
        }
        other => other,
    })
}

/// A name as an error shows it.
pub(super) fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(60)]
}
