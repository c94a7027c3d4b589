//! A gRPC task: learns the schema of the method from its server, unless the task carries it, sends the message, and
//! checks the answer. If the server is an executor, `accept` hands the work over and follows it to its end.
//!
//! There is no exit code: the task succeeds if the answer is as expected. The answer is written to the log as JSON, and
//! it is the run's output.
//!
//! ```text
//!  connect ──▶ reflection ──▶ encode ──▶ call ──▶ decode ──▶ check
//! ```

mod connect;
mod reflection;
mod unary;
mod accept;
mod stream;

use std::sync::Arc;

use punctual_core::attempt::Assignment;
use punctual_core::retry::Failed;
use punctual_core::schedule::format_duration;
use punctual_core::task::{Code, Grpc, NamedDescriptor, Schema};
use punctual_core::template::{Value, Values};
use tokio::time::{Instant, timeout};
use tonic::metadata::MetadataMap;

use super::ended::Ended;
use super::http::{Condition, first_line, header_values, headers, of_run};
use super::output::write;
use super::{Attempt, Ending, Host, stop_asked};
use crate::log::Transcript;
pub(crate) use stream::Executors;

pub(super) async fn execute(grpc: &Grpc, attempt: Attempt, host: &Host) -> Ending {
    if grpc.accept {
        return accept::execute(grpc, attempt, host).await;
    }
    let Attempt { assignment, started_at, mut stop, .. } = attempt;
    let transcript =
        Transcript::new(assignment.run, assignment.token, Arc::clone(&host.clock), Arc::clone(&host.logs));
    let values = assignment.values(started_at);
    let (ended, stopped) = tokio::select! {
        biased;
        stop = stop_asked(&mut stop) => (Ended::failed(stop.to_string(), Failed::Error), Some(stop)),
        ended = timeout(grpc.timeout, call(grpc, &assignment, values, host, &transcript)) => (
            ended.unwrap_or_else(|_| {
                let error = format!("no answer within {}", format_duration(grpc.timeout));
                Ended::failed(error, Failed::Timeout)
            }),
            None,
        ),
    };
    ended.close(&transcript, started_at, stopped).await
}

async fn call(
    grpc: &Grpc,
    assignment: &Assignment,
    values: Values,
    host: &Host,
    transcript: &Transcript,
) -> Ended {
    match exchange(grpc, assignment, &values, host, transcript).await {
        Ok(answer) => answer.check(grpc, values),
        Err(error) => Ended::failed(error, Failed::Error),
    }
}

/// What the server said.
struct Answer {
    code: Code,
    /// What it says about a status other than `OK`.
    message: String,
    metadata: MetadataMap,
    /// `None` if the status is not `OK`.
    json: Option<serde_json::Value>,
}

/// The error says why the method was not called, or why its answer cannot be read.
async fn exchange(
    grpc: &Grpc,
    assignment: &Assignment,
    values: &Values,
    host: &Host,
    transcript: &Transcript,
) -> Result<Answer, String> {
    let call = grpc.render(values).map_err(|invalid| invalid.to_string())?;
    let mut sent = headers("task.grpc.metadata", &call.metadata)?;
    sent.extend(of_run(assignment));
    let metadata = MetadataMap::from_headers(sent);
    let channel = connect::connect(grpc, host.clients.egress()).await?;
    let schema = match &grpc.descriptor {
        Some(named) => carried(named)?,
        None => reflection::schema(&channel, grpc, &metadata).await?,
    };
    let (service, method) = grpc.service_and_method();
    let method = schema.method(service, method).map_err(|invalid| invalid.to_string())?;
    let message = method.encode(&call.message).map_err(|invalid| invalid.to_string())?;

    let begun = Instant::now();
    let answer = unary::call(channel, grpc, metadata, message).await;
    let took = begun.elapsed().as_millis();
    let (code, bytes) = match &answer {
        Ok((_, bytes)) => (Code::OK, bytes.len()),
        Err(status) => (Code::of(status.code() as i32), 0),
    };
    let place = format!("{} of {}", grpc.method, grpc.address);
    transcript.note(&format!("{place}: status {code} after {took} ms, {bytes} bytes")).await;
    match answer {
        Ok((metadata, bytes)) => {
            let json =
                method.decode(&bytes).map_err(|error| format!("the answer is not readable: {error}"))?;
            write(format!("{json:#}\n").as_bytes(), transcript).await;
            Ok(Answer { code, message: String::new(), metadata, json: Some(json) })
        }
        Err(status) => {
            let message = unary::message(&status);
            Ok(Answer { code, message, metadata: status.metadata().clone(), json: None })
        }
    }
}

/// The schema that came with the task.
fn carried(named: &NamedDescriptor) -> Result<Schema, String> {
    let broken =
        |why: &str| format!("the schema `{}` did not come with the task as it should: {why}", named.name);
    let carried = named.carried.as_ref().ok_or_else(|| broken("the node is of an older version"))?;
    Schema::decode(&carried.set).map_err(|why| broken(&why))
}

impl Answer {
    fn check(self, grpc: &Grpc, values: Values) -> Ended {
        let Answer { code, message, metadata, json } = self;
        let output = json.map_or(message, |json| json.to_string());
        let beginning = first_line(output.as_bytes());
        if !grpc.expect.status.contains(&code) {
            let expected: Vec<&str> = grpc.expect.status.iter().map(|code| code.word()).collect();
            let error = format!("status {code}, expected {}{beginning}", expected.join(", "));
            return Ended { output, error: Some(error), failed: Failed::Status(code.http_status()) };
        }
        let values = values
            .with("status", Value::text(code.word()))
            .with("headers", header_values(&metadata.into_headers()))
            .with("json", Value::from_json(&output).filter(|_| code == Code::OK).unwrap_or(Value::Null))
            .with("body", Value::text(output.as_str()));
        let condition = grpc.condition().map_err(|invalid| invalid.to_string()).and_then(|rule| {
            Condition { rule, written: grpc.expect.condition.as_deref() }.check(&values, "", &beginning)
        });
        Ended { output, error: condition.err(), failed: Failed::Error }
    }
}
