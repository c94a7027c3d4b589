//! Turns the answer of a server into JSON, within limits: the server may be hostile, and it chooses its schema.

use std::io;

use prost_reflect::{DynamicMessage, ReflectMessage, SerializeOptions, Value as Part};
use serde_json::Value;

use super::UnaryMethod;
use crate::limits::GRPC_ANSWER_JSON_BYTES_MAX;

/// Messages of type `Any` in an answer, one inside the other.
const ANY_DEPTH_MAX: usize = 8;

impl UnaryMethod {
    /// An answer as JSON. Fields that have no presence are there with their default values, so that a condition can
    /// name them.
    pub fn decode(&self, answer: &[u8]) -> Result<Value, String> {
        let message =
            DynamicMessage::decode(self.output.clone(), answer).map_err(|error| error.to_string())?;
        check_any(&message, ANY_DEPTH_MAX)?;
        let options = SerializeOptions::new().skip_default_fields(false);
        let mut json = Limited::default();
        message
            .serialize_with_options(&mut serde_json::Serializer::new(&mut json), &options)
            .map_err(|error| error.to_string())?;
        serde_json::from_slice(&json.0).map_err(|error| error.to_string())
    }
}

/// Refuses messages of type `Any` that are nested too deeply: the library reads one inside the other without a limit.
fn check_any(message: &DynamicMessage, depth: usize) -> Result<(), String> {
    let descriptor = message.descriptor();
    if descriptor.full_name() != "google.protobuf.Any" {
        return message.fields().try_for_each(|(_, part)| check_any_in(part, depth));
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Err(format!("more than {ANY_DEPTH_MAX} messages of type `Any` are nested"));
    };
    let field = |number| message.get_field_by_number(number);
    let (Some(url), Some(bytes)) = (field(1), field(2)) else { return Ok(()) };
    let name = url.as_str().and_then(|url| url.rsplit('/').next()).unwrap_or_default();
    let (Some(of), Some(bytes)) = (descriptor.parent_pool().get_message_by_name(name), bytes.as_bytes())
    else {
        return Ok(());
    };
    let inner = DynamicMessage::decode(of, bytes.clone()).map_err(|error| error.to_string())?;
    check_any(&inner, depth)
}

fn check_any_in(part: &Part, depth: usize) -> Result<(), String> {
    match part {
        Part::Message(message) => check_any(message, depth),
        Part::List(items) => items.iter().try_for_each(|item| check_any_in(item, depth)),
        Part::Map(entries) => entries.values().try_for_each(|value| check_any_in(value, depth)),
        _ => Ok(()),
    }
}

/// The JSON of an answer. With all default values it can be a thousand times as long as the answer, so it has a limit.
#[derive(Debug, Default)]
struct Limited(Vec<u8>);

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > GRPC_ANSWER_JSON_BYTES_MAX {
            let message = format!("as JSON it has more than {GRPC_ANSWER_JSON_BYTES_MAX} bytes");
            return Err(io::Error::other(message));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::method;
    use super::*;

    /// A method that answers with what it gets.
    fn echo() -> UnaryMethod {
        UnaryMethod { output: method().input, ..method() }
    }

    #[test]
    fn an_answer_of_nested_any_messages_is_refused_beyond_a_limit() {
        let any = |depth: usize| {
            let plain = json!({ "@type": "x/shop.v1.Line", "amount": 7, "ok": false });
            let wrap = |inner, _| json!({ "@type": "x/google.protobuf.Any", "value": inner });
            json!({ "any": (1..depth).fold(plain, wrap) })
        };
        let bytes = echo().encode(&any(ANY_DEPTH_MAX)).unwrap();
        assert_eq!(echo().decode(&bytes).unwrap()["any"], any(ANY_DEPTH_MAX)["any"]);
        let bytes = echo().encode(&any(ANY_DEPTH_MAX + 1)).unwrap();
        assert!(echo().decode(&bytes).unwrap_err().contains("are nested"));
    }

    #[test]
    fn an_answer_that_is_too_long_as_json_is_refused() {
        // An empty line of an order has two bytes.
        let lines = |count: usize| b"\x1a\x00".repeat(count);
        assert_eq!(echo().decode(&lines(1000)).unwrap()["lines"].as_array().unwrap().len(), 1000);
        assert!(echo().decode(&lines(500_000)).unwrap_err().contains("as JSON it has more than"));
    }
}
