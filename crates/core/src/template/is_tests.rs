//! The tests that may follow `is`.

use super::value::Value;

#[derive(Debug)]
pub(super) struct IsTest {
    pub(super) name: &'static str,
    pub(super) args: usize,
    pub(super) holds: fn(&Value, &[Value]) -> Result<bool, String>,
}

static TESTS: [IsTest; 10] = [
    IsTest { name: "none", args: 0, holds: |value, _| Ok(matches!(value, Value::Null)) },
    IsTest { name: "true", args: 0, holds: |value, _| Ok(matches!(value, Value::Bool(true))) },
    IsTest { name: "false", args: 0, holds: |value, _| Ok(matches!(value, Value::Bool(false))) },
    IsTest { name: "boolean", args: 0, holds: |value, _| Ok(matches!(value, Value::Bool(_))) },
    IsTest {
        name: "number",
        args: 0,
        holds: |value, _| Ok(matches!(value, Value::Int(_) | Value::Float(_))),
    },
    IsTest { name: "string", args: 0, holds: |value, _| Ok(matches!(value, Value::Text(_))) },
    IsTest { name: "sequence", args: 0, holds: |value, _| Ok(matches!(value, Value::List(_))) },
    IsTest { name: "mapping", args: 0, holds: |value, _| Ok(matches!(value, Value::Map(_))) },
    IsTest {
        name: "startingwith",
        args: 1,
        holds: |value, args| texts(value, args, |text, part| text.starts_with(part)),
    },
    IsTest {
        name: "endingwith",
        args: 1,
        holds: |value, args| texts(value, args, |text, part| text.ends_with(part)),
    },
];

pub(super) fn find(name: &str) -> Option<&'static IsTest> {
    TESTS.iter().find(|test| test.name == name)
}

pub(super) fn names() -> String {
    TESTS.iter().map(|test| test.name).collect::<Vec<_>>().join(", ")
}

fn texts(value: &Value, args: &[Value], holds: fn(&str, &str) -> bool) -> Result<bool, String> {
    match (value, args) {
        (Value::Text(value), [Value::Text(part)]) => Ok(holds(value, part)),
        (Value::Text(_), _) => Err("a text is needed after `is`".to_owned()),
        (other, _) => Err(format!("a text is needed, this is {}", other.kind())),
    }
}
