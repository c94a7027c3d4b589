//! JSON merge patch (RFC 7396): a document with the changed fields only. Null removes a field.

use crate::tree::{Node, Value};

pub fn apply(target: &mut Node, patch: Node) {
    let Value::Map(changes) = patch.value else {
        *target = patch;
        return;
    };
    if !matches!(target.value, Value::Map(_)) {
        target.value = Value::Map(Vec::new());
    }
    let Value::Map(entries) = &mut target.value else { return };
    for (key, change) in changes {
        let place = entries.iter().position(|(known, _)| known.text == key.text);
        match (place, change.value == Value::Null) {
            (Some(place), true) => drop(entries.remove(place)),
            (None, true) => {}
            (Some(place), false) => apply(&mut entries[place].1, change),
            (None, false) => {
                // A new map may contain nulls too; they also mean that the field is absent.
                let mut fresh = Node { place: change.place, value: Value::Null };
                apply(&mut fresh, change);
                entries.push((key, fresh));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &str, patch: &str, expected: &str) {
        let read = |text: &str| Node::from_json(text.as_bytes()).unwrap();
        let mut target = read(target);
        apply(&mut target, read(patch));
        let value = |node: &Node| node.to::<serde_json::Value>().unwrap();
        assert_eq!(value(&target), value(&read(expected)), "{patch}");
    }

    /// The rules of the RFC, a row each.
    #[test]
    fn a_patch_changes_what_it_names_and_null_takes_away() {
        check(r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#);
        check(r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#);
        check(r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#);
        check(r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#);
        check(r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#);
        check(r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#);
        check(r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#);
        check(r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#);
        check(r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#);
    }
}
