//! The part of JSON Schema that our schemas use, so that tests can validate documents.

use serde_json::Value;

/// Why a value does not match. `None` means that it matches.
pub(super) fn misfit(value: &Value, schema: &Value, all: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap_or_default();
        let found = all.get(name).unwrap_or_else(|| panic!("no schema `{name}`"));
        return misfit(value, found, all);
    }
    if let Some(kind) = schema.get("type")
        && !kinds(kind).any(|kind| is(value, kind))
    {
        return Some(format!("{value} is no {kind}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Some(format!("{value} is none of {words:?}"));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return Some(format!("{value} is not {}", schema["const"]));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = choices.iter().filter(|choice| misfit(value, choice, all).is_none()).count();
        if fitting != 1 {
            return Some(format!("{value} fits {fitting} of {} choices", choices.len()));
        }
    }
    number(value, schema)
        .or_else(|| text(value, schema))
        .or_else(|| object(value, schema, all))
        .or_else(|| list(value, schema, all))
}

fn kinds(kind: &Value) -> impl Iterator<Item = &str> {
    kind.as_str().into_iter().chain(kind.as_array().into_iter().flatten().filter_map(Value::as_str))
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no kind `{other}`"),
    }
}

fn number(value: &Value, schema: &Value) -> Option<String> {
    let number = value.as_f64()?;
    let low = schema["minimum"].as_f64().is_some_and(|least| number < least);
    let high = schema["maximum"].as_f64().is_some_and(|most| number > most);
    (low || high).then(|| format!("{value} is out of range"))
}

fn text(value: &Value, schema: &Value) -> Option<String> {
    let signs = value.as_str()?.chars().count() as u64;
    let short = schema["minLength"].as_u64().is_some_and(|least| signs < least);
    let long = schema["maxLength"].as_u64().is_some_and(|most| signs > most);
    (short || long).then(|| format!("{value} is too short or too long"))
}

fn object(value: &Value, schema: &Value, all: &Value) -> Option<String> {
    let fields = value.as_object()?;
    for needed in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(needed) {
            return Some(format!("`{needed}` is missing"));
        }
    }
    fields.iter().find_map(|(name, value)| match schema["properties"].get(name) {
        Some(schema) => misfit(value, schema, all).map(|why| format!("{name}: {why}")),
        None => match &schema["additionalProperties"] {
            Value::Bool(false) => Some(format!("`{name}` is not known")),
            Value::Object(_) => misfit(value, &schema["additionalProperties"], all),
            _ => None,
        },
    })
}

fn list(value: &Value, schema: &Value, all: &Value) -> Option<String> {
    let items = value.as_array()?;
    if schema["minItems"].as_u64().is_some_and(|least| (items.len() as u64) < least) {
        return Some("too few items".to_owned());
    }
    let of = schema.get("items")?;
    items.iter().find_map(|item| misfit(item, of, all))
}
