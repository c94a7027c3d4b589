//! The differences between two documents, for REST, `punctual job diff` and the list of revisions.
//!
//! Maps are compared by key and lists by index, so a difference names the path of the edited part. A part
//! that is missing on one side differs from a part that is null there.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::job_file::JobFile;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Difference {
    /// Such as `schedule.cron` or `task.process.command[1]`.
    pub path: String,
    /// Left out: it was not there.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Left out: it is there no longer.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// An explicit null is a value, too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Every difference between two jobs, ordered by path.
pub fn of_files(before: &JobFile, after: &JobFile) -> Vec<Difference> {
    // A job file is plain data, so serializing it cannot fail.
    let value = |file: &JobFile| serde_json::to_value(file).unwrap_or_default();
    of(&value(before), &value(after))
}

pub fn of(before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    found
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Difference>) {
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            let mut keys: Vec<&String> = old.keys().chain(added).collect();
            keys.sort_unstable();
            for key in keys {
                compare(&child(path, key), old.get(key), new.get(key), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                compare(&format!("{path}[{index}]"), old.get(index), new.get(index), found);
            }
        }
        _ if before == after => {}
        _ => found.push(Difference { path: path.to_owned(), before: before.cloned(), after: after.cloned() }),
    }
}

/// Parameters may have any key: a key that could be mistaken for a path is quoted.
fn child(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{}]", Value::from(key)),
    }
}

impl Difference {
    /// `+` for added, `-` for removed, `~` for changed.
    pub fn sign(&self) -> char {
        match (&self.before, &self.after) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        }
    }

    /// The top-level field of the path: `schedule` for `schedule.cron`.
    pub fn part(&self) -> &str {
        self.path.split(['.', '[']).next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: &Value, after: &Value, expected: &[(&str, char)]) {
        let found = of(before, after);
        let seen: Vec<(&str, char)> = found.iter().map(|one| (one.path.as_str(), one.sign())).collect();
        assert_eq!(seen, expected, "{found:?}");
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Difference>>(&text).unwrap(), found, "{text}");
    }

    #[test]
    fn a_difference_is_named_by_the_path_of_what_was_edited() {
        check(&json!({ "a": { "b": 1, "c": 2 } }), &json!({ "a": { "b": 1, "c": 3 } }), &[("a.c", '~')]);
        check(&json!({ "a": 1 }), &json!({ "b": 1 }), &[("a", '-'), ("b", '+')]);
        check(&json!({ "l": [1, 2, 3] }), &json!({ "l": [1, 5] }), &[("l[1]", '~'), ("l[2]", '-')]);
        check(&json!({ "a": { "b": 1 } }), &json!({ "a": "text" }), &[("a", '~')]);
        check(&json!({ "p": { "x.y": 1 } }), &json!({ "p": { "x.y": 2 } }), &[("p[\"x.y\"]", '~')]);
        check(&json!({ "a": 1 }), &json!({ "a": 1 }), &[]);
    }

    #[test]
    fn nothing_and_null_are_not_the_same() {
        check(&json!({ "p": {} }), &json!({ "p": { "x": null } }), &[("p.x", '+')]);
        check(&json!({ "p": { "x": null } }), &json!({ "p": { "x": 1 } }), &[("p.x", '~')]);
    }

    #[test]
    fn the_part_of_a_path_is_its_first_word() {
        let part =
            |path: &str| Difference { path: path.to_owned(), before: None, after: None }.part().to_owned();
        assert_eq!(part("schedule.cron"), "schedule");
        assert_eq!(part("schedule[1].cron"), "schedule");
        assert_eq!(part("timeout"), "timeout");
    }
}
