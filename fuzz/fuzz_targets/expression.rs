//! Templates and conditions: any text is either parsed, or refused with a message that names a position in it. What was
//! parsed is evaluated within its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_core::Timestamp;
use punctual_core::limits::EXPRESSION_RESULT_BYTES_MAX;
use punctual_core::template::{Condition, Template, Value, Values};

fuzz_target!(|text: &str| {
    let values = values();
    match Template::parse(text) {
        Ok(template) => {
            for rendered in [template.render(&values), template.render_url(&values)].into_iter().flatten() {
                assert!(
                    rendered.len() <= text.len() + EXPRESSION_RESULT_BYTES_MAX,
                    "{} bytes",
                    rendered.len()
                );
            }
        }
        Err(error) => assert!(!error.in_text(text).is_empty()),
    }
    match Condition::parse(text) {
        // What cannot be decided is an error, and either way it ends.
        Ok(condition) => drop(condition.holds(&values)),
        Err(error) => assert!(!error.in_text(text).is_empty()),
    }
});

fn values() -> Values {
    let due = Value::instant(Timestamp::from_millis(1_796_085_000_000));
    let json =
        r#"{"a": [1, "two", 2.5, null, true], "n": 3, "s": "2026-12-01T08:00:00+08:00", "m": {"k": "v"}}"#;
    let object = || Value::from_json(json).expect("it is JSON");
    Values::default()
        .with("params", object())
        .with("due", due.clone())
        .with("started", due)
        .with("run", Value::map([("id", Value::text("17")), ("attempt", Value::Int(2))]))
        .with("job", Value::map([("name", Value::text("nightly"))]))
        .with("status", Value::Int(200))
        .with("body", Value::text(json))
        .with("json", object())
}
