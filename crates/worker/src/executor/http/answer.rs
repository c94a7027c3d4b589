//! The response: its beginning is kept, and written to the log line by line.

use std::time::Duration;

use punctual_core::limits::{HTTP_RESPONSE_BYTES_MAX, OUTPUT_BYTES_MAX};
use punctual_core::log::{CHUNK_BYTES_MAX, Stream};
use punctual_core::task::Http;
use punctual_core::template::{self, Value, Values};
use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};
use tokio::time::{Instant, sleep_until};

use crate::executor::line::Lines;
use crate::executor::output::{FLUSH_AFTER, cut_end};
use crate::log::Transcript;

/// Maximum length of a body excerpt in an error.
const ECHO_BYTES_MAX: usize = 200;

/// What was read so far. It is filled during the call, so that it is available if the call is stopped.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) status: Option<StatusCode>,
    pub(super) headers: HeaderMap,
    body: Vec<u8>,
    is_cut: bool,
}

impl Answer {
    /// Reads until the end or the limit.
    pub(super) async fn read(
        &mut self,
        mut response: Response,
        transcript: &Transcript,
    ) -> Result<(), reqwest::Error> {
        let (mut piece, mut lines) = (Vec::new(), Lines::default());
        let mut flush_at = Instant::now();
        let read = loop {
            let chunk = tokio::select! {
                biased;
                () = sleep_until(flush_at), if !piece.is_empty() => {
                    transcript.output(Stream::Out, std::mem::take(&mut piece)).await;
                    continue;
                }
                chunk = response.chunk() => chunk,
            };
            let chunk = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let room = HTTP_RESPONSE_BYTES_MAX - self.body.len();
            let chunk = chunk.get(..room).inspect(|_| self.is_cut |= chunk.len() > room).unwrap_or(&chunk);
            self.body.extend_from_slice(chunk);
            if piece.is_empty() {
                flush_at = Instant::now() + FLUSH_AFTER;
            }
            for part in chunk.chunks(CHUNK_BYTES_MAX / 4) {
                transcript.left_out(lines.add(part, &mut piece));
                if piece.len() > CHUNK_BYTES_MAX / 2 {
                    transcript.output(Stream::Out, std::mem::take(&mut piece)).await;
                }
            }
            if self.is_cut {
                break Ok(());
            }
        };
        if !piece.is_empty() {
            transcript.output(Stream::Out, piece).await;
        }
        if self.is_cut {
            let limit = HTTP_RESPONSE_BYTES_MAX / (1024 * 1024);
            transcript.note(&format!("response cut here: no more than {limit} MiB is read")).await;
        }
        read
    }

    /// A summary in one line.
    pub(super) fn in_words(&self, took: Duration) -> String {
        let status = self.status.map_or_else(String::new, |status| status.to_string());
        format!("status {status} after {} ms, {} bytes", took.as_millis(), self.body.len())
    }

    /// The status, if the task does not expect it.
    pub(super) fn unexpected_status(&self, http: &Http) -> Option<u16> {
        let status = self.status?.as_u16();
        (!http.expect.status.iter().any(|range| range.contains(status))).then_some(status)
    }

    /// The error describes what is not as expected.
    pub(super) fn check(&self, http: &Http, values: Values) -> Result<(), String> {
        if self.unexpected_status(http).is_some() {
            let status = self.status.unwrap_or_default();
            let expected: Vec<String> = http.expect.status.iter().map(ToString::to_string).collect();
            return Err(format!("status {status}, expected {}{}", expected.join(", "), self.first_line()));
        }
        let text = String::from_utf8_lossy(&self.body);
        if let Some(part) = http.expect.body.as_deref().filter(|part| !text.contains(*part)) {
            let part = cut_end(part.to_owned(), ECHO_BYTES_MAX);
            return Err(format!(
                "the response does not contain `{part}`{}{}",
                self.cut_hint(),
                self.first_line()
            ));
        }
        let condition = Condition {
            rule: http.condition().map_err(|invalid| invalid.to_string())?,
            written: http.expect.condition.as_deref(),
        };
        condition.check(&self.values(values, &text), self.cut_hint(), &self.first_line())
    }

    fn values(&self, values: Values, text: &str) -> Values {
        let status = self.status.map_or(0, |status| status.as_u16());
        values
            .with("status", Value::Int(status.into()))
            .with("headers", header_values(&self.headers))
            .with("json", Value::from_json(text).unwrap_or(Value::Null))
            .with("body", Value::text(text))
    }

    fn cut_hint(&self) -> &'static str {
        if self.is_cut { " in the first 1 MiB, and no more of it is read" } else { "" }
    }

    /// The first line of the body: it often describes the failure.
    fn first_line(&self) -> String {
        first_line(&self.body)
    }

    pub(super) fn into_output(self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        cut_end(text.trim_end_matches(['\n', '\r']).to_owned(), OUTPUT_BYTES_MAX)
    }
}

/// The first line of an answer, to follow an error.
pub(in crate::executor) fn first_line(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(&answer[..answer.len().min(4 * ECHO_BYTES_MAX)]);
    match text.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => format!(": {}", cut_end(line.to_owned(), ECHO_BYTES_MAX)),
        None => String::new(),
    }
}

/// What a task expects of an answer, beyond its status.
pub(in crate::executor) struct Condition<'a> {
    /// `None` means nothing.
    pub(in crate::executor) rule: Option<template::Condition>,
    pub(in crate::executor) written: Option<&'a str>,
}

impl Condition<'_> {
    /// The error says why it does not hold, followed by the beginning of the answer.
    pub(in crate::executor) fn check(
        self,
        values: &Values,
        hint: &str,
        beginning: &str,
    ) -> Result<(), String> {
        let Some(rule) = self.rule else { return Ok(()) };
        let written = cut_end(self.written.unwrap_or_default().to_owned(), ECHO_BYTES_MAX);
        match rule.holds(values) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("the condition `{written}` does not hold{beginning}")),
            Err(error) => Err(format!("the condition `{written}` cannot be told: {error}{hint}")),
        }
    }
}

/// Headers for a condition. Those that are there more than once are joined.
pub(in crate::executor) fn header_values(headers: &HeaderMap) -> Value {
    let headers = headers.keys().map(|name| {
        let all = headers.get_all(name).iter();
        let all: Vec<_> = all.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        (name.as_str().to_owned(), Value::text(all.join(", ")))
    });
    Value::Map(std::sync::Arc::new(headers.collect()))
}
