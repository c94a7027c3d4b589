//! Errors as problem+json (RFC 9457), with one list of codes.

use std::fmt;

use punctual_core::command::Refusal;
use punctual_core::lock::LockRefusal;
use punctual_core::queue::QueueRefusal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::{Error, Kind, Place, plain};
use crate::schema;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub code: Code,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The line of the body, from 1. Absent if the error has no place in a body that is read by lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column in that line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

/// The list of codes: variant, name, status, title, and what to do about it.
macro_rules! codes {
    ($($code:ident $name:literal $status:literal $title:literal $advice:literal)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $(#[serde(rename = $name)] $code,)+
            /// A code of a newer server.
            #[serde(other)]
            Unknown,
        }

        impl Code {
            /// Every code that a server of this version sends.
            pub const ALL: &[Code] = &[$(Code::$code),+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$code => $name,)+
                    Code::Unknown => "unknown",
                }
            }

            pub fn status(self) -> u16 {
                match self {
                    $(Code::$code => $status,)+
                    Code::Unknown => 500,
                }
            }

            pub fn title(self) -> &'static str {
                match self {
                    $(Code::$code => $title,)+
                    Code::Unknown => "Internal error",
                }
            }

            /// What it means, and what to do about it.
            pub fn advice(self) -> &'static str {
                match self {
                    $(Code::$code => $advice,)+
                    Code::Unknown => "This client is older than the server.",
                }
            }
        }
    };
}

codes! {
    Malformed "malformed" 400 "The body cannot be read"
        "The body is not valid JSON or YAML, has a key twice, or is nested too deeply. `message` says where. Fix the body and send it again."
    BadParameter "bad_parameter" 400 "A parameter is invalid"
        "`field` names the part of the path, the query or the headers that is invalid, and `message` says what is allowed. Unknown query parameters are refused too."
    Unauthenticated "unauthenticated" 401 "A token is needed"
        "The request has no token, its token is unknown, removed or expired, or `Punctual-Attempt-Key` or the key of a ping is not the right one. Send `Authorization: Bearer TOKEN`. An administrator makes a token with `punctual token add`."
    CrossOrigin "cross_origin" 403 "Requests from other web sites are refused"
        "The `Host` is not a name of this server, or a page of another origin sent a change or opened a live stream. Use an IP address or localhost, or add the name to `server.hosts`."
    Forbidden "forbidden" 403 "The token's role does not allow this"
        "The token is valid, but its role does not allow this request. `message` names the role that does."
    NoSuchRoute "no_such_route" 404 "No such route"
        "`GET /api/v1/openapi.json` lists all routes."
    NoSuchJob "no_such_job" 404 "No such job"
        "The namespace has no job of this name. `GET …/jobs` lists its jobs."
    NoSuchRun "no_such_run" 404 "No such run"
        "The namespace has no run with this id, or the run is older than its retention. `GET …/runs` lists the runs."
    NotAWorkflow "not_a_workflow" 404 "Not a workflow"
        "The task of this job or run is not a workflow, so it has no graph and no steps."
    NoSuchStep "no_such_step" 404 "No such step"
        "The workflow has no step of this name. `GET …/graph` lists its steps; a step of a sub-workflow is named `settle/book`."
    NoSuchRevision "no_such_revision" 404 "No such revision"
        "The job never had this revision. `GET …/revisions` lists the revisions of the job."
    NoSuchDeadLetter "no_such_dead_letter" 404 "No such dead letter"
        "The namespace has no dead letter with this id. `GET …/dead-letters` lists them."
    NoSuchIncident "no_such_incident" 404 "No such incident"
        "The namespace has no incident with this id, or it was over more than a week ago. `GET …/incidents` lists them."
    NoSuchChannel "no_such_channel" 404 "No such channel"
        "No channel of this name is under `[alerts]` in the settings of this server. `GET /api/v1/channels` lists the channels."
    NoSuchCalendar "no_such_calendar" 404 "No such calendar"
        "The namespace has no calendar of this name. `GET …/calendars` lists its calendars."
    NoSuchHold "no_such_hold" 404 "No such hold"
        "The namespace has no hold of its own. `GET …/hold` lists the holds that cover it."
    NoSuchDescriptor "no_such_descriptor" 404 "No such descriptor"
        "The namespace has no descriptor of this name. `GET …/descriptors` lists its descriptors."
    NoSuchQueue "no_such_queue" 404 "No such queue"
        "The namespace has no queue of this name. A queue is created by its first message, and removed when it was empty and unused for five minutes."
    NoSuchMessage "no_such_message" 404 "No such message"
        "The message was acknowledged or deleted, its time to live is over, or the namespace never had a message with this id."
    NoSuchLock "no_such_lock" 404 "The lock is free"
        "No owner holds a lock of this name. `GET …/locks` lists the locks that are held."
    NoSuchToken "no_such_token" 404 "No such token"
        "No token has this name. `GET /api/v1/tokens` lists the tokens."
    NoSuchWorker "no_such_worker" 404 "No such worker"
        "No worker of this name is connected. `GET /api/v1/workers` lists the workers."
    NoSuchFile "no_such_file" 404 "No such file"
        "The console has no file of this name. A newer console has other files: load `/` again."
    MethodNotAllowed "method_not_allowed" 405 "This method is not allowed here"
        "The header `Allow` names the methods of this path."
    TooSlow "too_slow" 408 "The request took too long to arrive"
        "The request did not arrive within `server.request_time`. Nothing happened; send it again."
    TokenExists "token_exists" 409 "The name is taken"
        "Another token has this name. Remove it first, or choose another name."
    TooManyTokens "too_many_tokens" 409 "Too many tokens"
        "The server has as many tokens as it allows. Remove unused tokens, then try again."
    JobExists "job_exists" 409 "The job exists already"
        "`If-None-Match: *` asks for a new job only. Leave it out to edit the one that exists."
    CalendarExists "calendar_exists" 409 "The calendar exists already"
        "`If-None-Match: *` asks for a new calendar only. Leave it out to edit the one that exists."
    CalendarInUse "calendar_in_use" 409 "A job uses the calendar"
        "`message` names the job. Change or delete that job first."
    DescriptorExists "descriptor_exists" 409 "The descriptor exists already"
        "`If-None-Match: *` asks for a new descriptor only. Leave it out to replace the one that exists."
    WrongState "wrong_state" 409 "The run is in another state"
        "The run's state does not allow this request. Read the run again; `message` names its state."
    NotADeadLetter "not_a_dead_letter" 409 "The run is not a dead letter"
        "The run was replayed or discarded meanwhile, or it still has attempts. `GET …/dead-letters` lists the dead letters."
    IncidentOver "incident_over" 409 "The incident is over"
        "The condition does not hold any more, so the incident cannot be acknowledged or silenced."
    OutdatedToken "outdated_token" 409 "A newer attempt has taken over"
        "The token belongs to an attempt that was given up. Stop the work of that attempt."
    QueueTooLong "queue_too_long" 409 "The queue is full"
        "The queue has as many queued messages as `max_len` allows. Nothing was added; try again when some were taken."
    QueuePaused "queue_paused" 409 "The queue is paused"
        "Adding to the queue is paused. Nothing was added; `POST …/resume` ends the pause."
    TooLate "too_late" 409 "Too late to extend the delivery"
        "Half of the message's time to live is over, so its redelivery is not postponed again. Finish and acknowledge it. Or the message is queued again, and `running` of its queue allows no more unacknowledged messages."
    Locked "locked" 409 "The lock is held"
        "Another owner holds the lock. `message` names the owner, and when the lock expires. Try again then, or wait for it with `wait`."
    OutdatedFence "outdated_fence" 409 "The lock is not held under this fence any more"
        "The lock expired or was released, and another owner may hold it. Stop the work that it protects."
    KeyUsed "key_used" 409 "The key was used before"
        "The key belongs to a run that is no longer kept. That request was carried out; use a new key for a new request."
    WrongRevision "wrong_revision" 412 "The job has another revision"
        "The job was edited since it was read. Read it again and repeat the edit."
    WrongVersion "wrong_version" 412 "It has another version"
        "The calendar or the descriptor was edited since it was read. Read it again and repeat the edit."
    BodyTooLarge "body_too_large" 413 "The body is too large"
        "`docs/reference/limits.md` lists the limits. Send a smaller body on a new connection; this one is closed."
    AddressTooLong "address_too_long" 414 "The address is too long"
        "Path and query together are longer than `docs/reference/limits.md` allows. Shorten them."
    UnsupportedMediaType "unsupported_media_type" 415 "The media type is not supported"
        "Send `Content-Type: application/json`; a job may also be `application/yaml`."
    Invalid "invalid" 422 "A field is invalid"
        "The body can be read, but the value of `field` is not allowed. `message` says what is allowed."
    TooManyFailures "too_many_failures" 429 "Too many wrong tokens"
        "Too many wrong tokens came from this address. Try again after `Retry-After`. A valid token is accepted meanwhile."
    TooManyRuns "too_many_runs" 429 "Too many runs"
        "The node has as many live runs as it allows. Nothing happened; try again after `Retry-After`."
    TooManyQueues "too_many_queues" 429 "Too many queues"
        "The node has as many queues as it allows. Nothing happened; try again later. Empty queues are removed after five minutes."
    TooManyLocks "too_many_locks" 429 "Too many locks"
        "The namespace or the shard holds as many locks as allowed. Nothing happened; release some, or try again after `Retry-After`."
    TooManyWaiters "too_many_waiters" 429 "Too many callers wait for the lock"
        "The largest number of callers wait for this lock, or for the locks of its shard. Nothing happened; try again after `Retry-After`."
    TooManyFollowers "too_many_followers" 429 "Too many live streams"
        "The node serves as many live logs and events as it allows. Try again after `Retry-After`, or read without `follow`."
    HeadersTooLarge "headers_too_large" 431 "The headers are too large"
        "The request has too many headers, or too many bytes in them. Send fewer."
    ChannelFailed "channel_failed" 502 "The channel did not take the notification"
        "`message` says why. Check the address, the secret and the egress rules of the channel in the settings."
    Internal "internal" 500 "Internal error"
        "A bug in Punctual; the server's log has the cause. The outcome is unknown: repeat the request with the same `Idempotency-Key`."
    Unavailable "unavailable" 503 "Not available now"
        "The request cannot be decided now, and its outcome is unknown. Repeat it after `Retry-After`, with the same `Idempotency-Key`."
    TooManyConnections "too_many_connections" 503 "Too many connections"
        "The server has as many connections as it allows, in all or from this address. Nothing happened; try again after `Retry-After`."
    Full "full" 507 "No room left"
        "The disk of the store is full. Nothing happened; free some space and try again."
}

schema::by_hand!(Code as "Code": schema::words(Code::ALL.iter().map(|code| code.as_str())));

impl Code {
    /// Seconds after which a retry makes sense. `None` means that a retry does not help.
    pub fn retry_after(self) -> Option<u32> {
        let passing = matches!(
            self,
            Code::TooManyRuns
                | Code::TooManyQueues
                | Code::TooManyLocks
                | Code::TooManyWaiters
                | Code::TooManyFollowers
                | Code::TooManyFailures
                | Code::TooManyConnections
                | Code::Unavailable
                | Code::Full
        );
        passing.then_some(1)
    }
}

impl Problem {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Problem {
            kind: format!("urn:punctual:problem:{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            message: plain(&message.into()).into_owned(),
            field: None,
            line: None,
            column: None,
        }
    }

    /// An invalid parameter of the path, the query or the headers.
    pub fn parameter(field: impl Into<String>, message: impl Into<String>) -> Self {
        Problem::new(Code::BadParameter, message).about(field)
    }

    #[must_use]
    pub fn about(mut self, field: impl Into<String>) -> Self {
        self.field = Some(plain(&field.into()).into_owned());
        self
    }

    /// The same problem with its position in the body. `None` means that the position is unknown.
    #[must_use]
    pub fn at(mut self, place: Option<Place>) -> Self {
        self.line = place.map(|place| place.line);
        self.column = place.map(|place| place.column);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Problem {}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match error.kind {
            Kind::Malformed => Code::Malformed,
            Kind::Invalid => Code::Invalid,
        };
        let message = match (code, error.place) {
            (Code::Malformed, Some(place)) => format!("{place}: {}", error.message),
            _ => error.message,
        };
        let problem = Problem::new(code, message).at(error.place);
        if error.field.is_empty() { problem } else { problem.about(error.field) }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::NoSuchJob { .. } => Code::NoSuchJob,
            Refusal::NoSuchRun(_) => Code::NoSuchRun,
            Refusal::NoSuchCalendar { .. } => Code::NoSuchCalendar,
            Refusal::CalendarExists(_) => Code::CalendarExists,
            Refusal::NoSuchDescriptor { .. } => Code::NoSuchDescriptor,
            Refusal::DescriptorExists(_) => Code::DescriptorExists,
            Refusal::WrongVersion { .. } => Code::WrongVersion,
            Refusal::CalendarInUse { .. } => Code::CalendarInUse,
            Refusal::NotADeadLetter(_) => Code::NotADeadLetter,
            Refusal::OutdatedToken(_) => Code::OutdatedToken,
            Refusal::JobExists(_) => Code::JobExists,
            Refusal::WrongRevision { .. } => Code::WrongRevision,
            Refusal::WrongState { .. } | Refusal::WrongStep { .. } | Refusal::JobPaused(_) => {
                Code::WrongState
            }
            Refusal::NotAWorkflow(_) => Code::NotAWorkflow,
            Refusal::NoSuchStep { .. } => Code::NoSuchStep,
            Refusal::NoSuchIncident(_) => Code::NoSuchIncident,
            Refusal::IncidentOver(_) => Code::IncidentOver,
            Refusal::Invalid(invalid) => return Error::from(invalid.clone()).into(),
            Refusal::TooManyRuns => Code::TooManyRuns,
            Refusal::Lock(LockRefusal::Locked { .. }) => Code::Locked,
            Refusal::Lock(LockRefusal::OutdatedFence { .. }) => Code::OutdatedFence,
            Refusal::Lock(LockRefusal::TooManyLocks(_)) => Code::TooManyLocks,
            Refusal::Lock(LockRefusal::TooManyWaiters(_)) => Code::TooManyWaiters,
        };
        Problem::new(code, refusal.to_string())
    }
}

impl From<QueueRefusal> for Problem {
    fn from(refusal: QueueRefusal) -> Self {
        let code = match &refusal {
            QueueRefusal::TooLong(_) => Code::QueueTooLong,
            QueueRefusal::Paused => Code::QueuePaused,
            QueueRefusal::NoSuchMessage => Code::NoSuchMessage,
            QueueRefusal::TooLate | QueueRefusal::Full => Code::TooLate,
            QueueRefusal::TooManyQueues => Code::TooManyQueues,
        };
        Problem::new(code, refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_its_code_and_field() {
        let problem = Problem::from(Error::invalid("schedule.cron", "no"));
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["type"], "urn:punctual:problem:invalid");
        assert_eq!((json["status"].as_u64(), json["field"].as_str()), (Some(422), Some("schedule.cron")));
        assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problem);
    }

    #[test]
    fn a_code_is_written_as_the_vocabulary_names_it_and_is_an_error() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert!((400..600).contains(&code.status()), "{code:?}");
        }
    }

    /// The page is the vocabulary as a table; `UPDATE_DOCS=1` writes it anew.
    #[test]
    fn the_page_of_errors_is_the_vocabulary() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/errors.md");
        let mut table = "| code | status | what it means, and what to do |\n|---|---|---|\n".to_owned();
        for code in Code::ALL {
            let (status, title, advice) = (code.status(), code.title(), code.advice());
            table += &format!("| `{}` | {status} | {title}. {advice} |\n", code.as_str());
        }
        let text = std::fs::read_to_string(page).unwrap_or_default();
        let (before, _) = text.split_once("| code |").expect("the page has a table of codes");
        let expected = format!("{before}{table}");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(page, &expected).unwrap();
        }
        assert_eq!(std::fs::read_to_string(page).unwrap(), expected, "UPDATE_DOCS=1 writes it anew");
    }

    #[test]
    fn a_code_of_a_newer_server_is_still_a_problem() {
        let text = r#"{"type":"x","title":"t","status":418,"code":"teapot","message":"short and stout"}"#;
        assert_eq!(serde_json::from_str::<Problem>(text).unwrap().code, Code::Unknown);
    }
}
