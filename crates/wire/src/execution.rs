//! What the receiver of a task says about work that it accepted: JSON over HTTP, or `punctual.v1.Execution` over gRPC.
//!
//! The receivers are services of other people. Fields that are not known here are ignored.

use std::collections::HashMap;

use punctual_core::limits::PROGRESS_MESSAGE_BYTES_MAX;
use punctual_core::progress::Progress;
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::grpc::v1;

/// An execution as its receiver describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    pub status: Status,
    /// `None` means that it has nothing to report.
    pub progress: Option<Progress>,
    pub message: Option<String>,
    pub result: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Running,
    Succeeded,
    Failed,
}

/// The executions in an answer about all of them, by execution id. They are read one by one: a bad entry says nothing
/// about the others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Executions(HashMap<String, Value>);

impl Execution {
    pub fn parse(text: &[u8]) -> Result<Execution, Error> {
        read(parse(text)?)
    }

    /// `None` means that the receiver does not know the execution.
    pub fn from_grpc(said: v1::Execution) -> Result<Option<Execution>, Error> {
        let status = match said.status() {
            v1::execution::Status::Unknown => return Ok(None),
            v1::execution::Status::Running => Status::Running,
            v1::execution::Status::Succeeded => Status::Succeeded,
            v1::execution::Status::Failed => Status::Failed,
            v1::execution::Status::Unspecified => {
                return Err(Error::invalid("status", "is missing, or none that is known here"));
            }
        };
        let progress = Progress {
            // A number that does not fit is above 100, and refused as such.
            percent: said.percent.map(|percent| u8::try_from(percent).unwrap_or(u8::MAX)),
            checkpoint: said.checkpoint.map(Into::into),
            ..Progress::default()
        };
        Execution::checked(status, progress, said.message, said.result.map(Value::String)).map(Some)
    }

    /// The message is also a part of the progress.
    fn checked(
        status: Status,
        progress: Progress,
        message: Option<String>,
        result: Option<Value>,
    ) -> Result<Execution, Error> {
        let shown = |message: &String| {
            let end = message.floor_char_boundary(PROGRESS_MESSAGE_BYTES_MAX);
            message[..end].into()
        };
        let progress = Progress { message: message.as_ref().map(shown), ..progress };
        let progress = (progress != Progress::default()).then_some(progress);
        if let Some(progress) = &progress {
            progress.check()?;
        }
        Ok(Execution { status, progress, message, result })
    }
}

impl Executions {
    /// An object with an entry for each execution id, or a list of entries with the field `execution_id`.
    pub fn parse(text: &[u8]) -> Result<Executions, Error> {
        match parse(text)? {
            Value::Object(entries) => Ok(Executions(entries.into_iter().collect())),
            Value::Array(entries) => entries.into_iter().enumerate().map(identified).collect(),
            _ => Err(Error::malformed("is neither an object nor a list of executions", None)),
        }
    }

    /// `None` means that the answer does not mention the execution.
    pub fn get(&self, id: &str) -> Option<Result<Execution, Error>> {
        self.0.get(id).cloned().map(read)
    }
}

impl FromIterator<(String, Value)> for Executions {
    fn from_iter<T: IntoIterator<Item = (String, Value)>>(entries: T) -> Self {
        Executions(entries.into_iter().collect())
    }
}

fn parse(text: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(text).map_err(|error| Error::malformed(format!("is not JSON: {error}"), None))
}

fn identified((index, entry): (usize, Value)) -> Result<(String, Value), Error> {
    let id = match entry.get("execution_id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => return Err(Error::invalid(format!("[{index}].execution_id"), "must be a text or a number")),
    };
    Ok((id, entry))
}

fn read(value: Value) -> Result<Execution, Error> {
    #[derive(Deserialize)]
    #[serde(expecting = "an object like { \"status\": \"running\", \"progress\": 40 }")]
    struct Written {
        status: Status,
        progress: Option<f64>,
        message: Option<String>,
        checkpoint: Option<Value>,
        result: Option<Value>,
    }

    let written: Written =
        serde_json::from_value(value).map_err(|error| Error::invalid("", error.to_string()))?;
    if written.progress.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
        return Err(Error::invalid("progress", "must be 0 to 100"));
    }
    let progress = Progress {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is 0 to 100")]
        percent: written.progress.map(|percent| percent as u8),
        checkpoint: written.checkpoint.map(|json| json.to_string().into()),
        ..Progress::default()
    };
    Execution::checked(written.status, progress, written.message, written.result)
}

#[cfg(test)]
mod tests {
    use punctual_core::limits::CHECKPOINT_BYTES_MAX;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_refused(text: &str, words: &str) {
        let error = Execution::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }

    #[test]
    fn an_execution_is_read_with_whatever_else_the_service_says() {
        let text = r#"{"status": "running", "progress": 40.5, "message": "row 400", "checkpoint": {"row": 400},
                       "result": null, "host": "a"}"#;
        let read = Execution::parse(text.as_bytes()).unwrap();
        let progress = read.progress.unwrap();
        assert_eq!((read.status, progress.percent), (Status::Running, Some(40)));
        assert_eq!(progress.checkpoint.as_deref(), Some(r#"{"row":400}"#));
        let bare = Execution::parse(br#"{"status": "succeeded", "result": [1]}"#).unwrap();
        assert_eq!((bare.progress, bare.result), (None, Some(json!([1]))));
    }

    #[test]
    fn the_answer_in_the_guide_is_understood() {
        let guide = include_str!("../../../docs/guides/long-work.md");
        let answers = guide.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let all: Vec<&str> = answers.filter(|answer| answer.contains("\"7301\"")).collect();
        let all = Executions::parse(all[0].as_bytes()).unwrap();
        let running = |id| all.get(id).unwrap().unwrap().progress.unwrap().percent;
        assert_eq!((running("7301"), running("7302")), (Some(40), Some(5)));
    }

    #[test]
    fn a_bad_answer_says_what_is_wrong() {
        check_refused("<html>", "is not JSON");
        check_refused("[]", "status");
        check_refused("{}", "missing field `status`");
        check_refused(r#"{"status": "done"}"#, "unknown variant `done`, expected one of `running`");
        check_refused(r#"{"status": "running", "progress": 101}"#, "progress: must be 0 to 100");
        check_refused(r#"{"status": "running", "progress": "half"}"#, "half");
        let large = "x".repeat(CHECKPOINT_BYTES_MAX);
        check_refused(&json!({ "status": "running", "checkpoint": large }).to_string(), "checkpoint");
    }

    #[test]
    fn an_execution_over_grpc_is_read_and_checked() {
        use v1::execution::Status as Said;
        let said = |status: Said| v1::Execution { status: status.into(), ..v1::Execution::default() };
        let told = v1::Execution {
            percent: Some(40),
            message: Some("row 400".to_owned()),
            checkpoint: Some("{}".to_owned()),
            result: Some("7".to_owned()),
            ..said(Said::Running)
        };
        let read = Execution::from_grpc(told.clone()).unwrap().unwrap();
        let progress = read.progress.unwrap();
        assert_eq!((progress.percent, progress.message.as_deref()), (Some(40), Some("row 400")));
        assert_eq!((progress.checkpoint.as_deref(), read.result), (Some("{}"), Some(json!("7"))));
        assert_eq!(Execution::from_grpc(said(Said::Unknown)).unwrap(), None);
        for (bad, field) in [
            (said(Said::Unspecified), "status"),
            (v1::Execution { status: 99, ..told.clone() }, "status"),
            (v1::Execution { percent: Some(101), ..told.clone() }, "percent"),
            (v1::Execution { percent: Some(256), ..told.clone() }, "percent"),
            (v1::Execution { checkpoint: Some("{".to_owned()), ..told }, "checkpoint"),
        ] {
            let error = Execution::from_grpc(bad.clone()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{field}: ")), "{bad:?}: {error}");
        }
    }

    #[test]
    fn a_long_message_is_cut_for_the_report_and_whole_for_the_error() {
        let long = "é".repeat(PROGRESS_MESSAGE_BYTES_MAX);
        let read = Execution::parse(json!({ "status": "failed", "message": long }).to_string().as_bytes());
        let read = read.unwrap();
        assert_eq!(read.message.as_deref(), Some(&*long));
        assert_eq!(read.progress.unwrap().message.unwrap().len(), PROGRESS_MESSAGE_BYTES_MAX);
    }

    #[test]
    fn all_executions_come_as_an_object_or_as_a_list() {
        let running = json!({ "status": "running", "progress": 7 });
        let bad = json!({ "status": "dancing" });
        let object = json!({ "1": running, "2": bad });
        let list = json!([
            { "execution_id": "1", "status": "running", "progress": 7 },
            { "execution_id": 2, "status": "dancing" },
        ]);
        for text in [object, list] {
            let all = Executions::parse(text.to_string().as_bytes()).unwrap();
            assert_eq!(all.get("1").unwrap().unwrap().progress, Some(Progress::percent(7)), "{text}");
            assert!(all.get("2").unwrap().is_err(), "{text}");
            assert_eq!(all.get("3"), None, "{text}");
        }
        for text in ["7", "[{}]", r#"[{"execution_id": null}]"#, "{"] {
            assert!(Executions::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
