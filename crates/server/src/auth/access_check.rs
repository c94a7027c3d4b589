//! The access check of REST: the right in the route's row is checked before the request body is read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use punctual_node::AttemptKeys;
use punctual_wire::rest::{ATTEMPT_KEY_HEADER, Code, EVENT_STREAM, PING_KEY_HEADER, Problem};

use super::{Caller, Gate, Peer, Refused};
use crate::reports::{Outcome, ReportCounts, Way};
use crate::rest::problem::Failed;
use crate::routes::{Right, served};

/// The challenge to a request without a token; the second form is for a token that is not accepted.
const CHALLENGE: &str = "Bearer realm=\"punctual\"";
const CHALLENGE_AGAIN: &str = "Bearer realm=\"punctual\", error=\"invalid_token\"";

/// How often the token of an open stream is checked again. Together with the gate's cache this stays below
/// the five seconds after which a removed token must stop working.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(crate) struct AccessCheck {
    gate: Arc<Gate>,
    attempt_keys: Option<AttemptKeys>,
    reports: Arc<ReportCounts>,
    rights: Arc<HashMap<&'static str, Vec<(Method, Right)>>>,
}

impl AccessCheck {
    pub(crate) fn new(
        gate: Arc<Gate>,
        attempt_keys: Option<AttemptKeys>,
        reports: Arc<ReportCounts>,
    ) -> AccessCheck {
        let mut rights: HashMap<&'static str, Vec<(Method, Right)>> = HashMap::new();
        for route in served() {
            rights.entry(route.path).or_default().push((route.method, route.right));
        }
        AccessCheck { gate, attempt_keys, reports, rights: Arc::new(rights) }
    }

    /// `None` means that no route matches.
    fn right_of(&self, method: &Method, path: Option<&MatchedPath>) -> Option<Right> {
        // HEAD is answered by the GET route.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let rows = self.rights.get(path?.as_str())?;
        rows.iter().find(|(of, _)| of == method).map(|(_, right)| *right)
    }
}

pub(crate) async fn check(State(access): State<AccessCheck>, request: Request, next: Next) -> Response {
    let right = access.right_of(request.method(), request.extensions().get::<MatchedPath>());
    match right {
        Some(Right::Report) => {}
        Some(Right::Ping) => return check_ping_key(&access, request, next).await,
        _ => return check_right(access, right, request, next).await,
    }
    let reports = Arc::clone(&access.reports);
    let response = match request.headers().get(ATTEMPT_KEY_HEADER).cloned() {
        Some(key) => check_key(&access, &key, request, next).await,
        None => check_right(access, right, request, next).await,
    };
    reports.count(Way::Rest, outcome_of(&response));
    response
}

/// What became of a report of progress.
fn outcome_of(response: &Response) -> Outcome {
    let refused = response.extensions().get::<Code>().map(|code| Outcome::of_problem(*code));
    let accepted = response.extensions().get::<Outcome>().copied();
    accepted.or(refused).unwrap_or(Outcome::Unavailable)
}

/// Lets the bearer of an attempt's key report for that attempt.
async fn check_key(access: &AccessCheck, key: &HeaderValue, mut request: Request, next: Next) -> Response {
    let caller = Caller::of(request.headers(), request.extensions());
    let shown = key.to_str().unwrap_or_default();
    match access.gate.attempt_of(&caller, access.attempt_keys.as_ref(), shown) {
        Ok(attempt) => {
            request.extensions_mut().insert(attempt);
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}

/// Lets the bearer of a ping's key report for that ping. The key is in a header or, for a line of a crontab, in the query.
/// A request without a key is no guess.
async fn check_ping_key(access: &AccessCheck, mut request: Request, next: Next) -> Response {
    let caller = Caller::of(request.headers(), request.extensions());
    let in_header = request.headers().get(PING_KEY_HEADER).map(|key| key.to_str().unwrap_or_default());
    let in_query = || request.uri().query()?.split('&').find_map(|pair| pair.strip_prefix("key="));
    let Some(shown) = in_header.or_else(in_query) else { return Refused::WrongPingKey.into_response() };
    match access.gate.ping_of(&caller, access.attempt_keys.as_ref(), shown) {
        Ok(ping) => {
            request.extensions_mut().insert(ping);
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}

async fn check_right(access: AccessCheck, right: Option<Right>, request: Request, next: Next) -> Response {
    let caller = Caller::of(request.headers(), request.extensions());
    let checked = match right {
        Some(right) => access.gate.check(&caller, right).await,
        // A caller without a valid token must not even learn which routes exist.
        None => access.gate.knows(&caller).await,
    };
    if let Err(refused) = checked {
        return refused.into_response();
    }
    let watch = right.filter(|_| !access.gate.is_open()).zip(caller.bearer.map(str::to_owned));
    let peer = caller.peer;
    let response = next.run(request).await;
    match watch {
        Some((right, bearer)) if is_live(&response) => {
            let ended = ended(access.gate, bearer, peer, right);
            response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(ended))))
        }
        _ => response,
    }
}

/// Whether the response is an event stream, which stays open.
fn is_live(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENT_STREAM.as_bytes()))
}

/// Waits until the token loses its right: a removed token must not keep a stream open.
async fn ended(gate: Arc<Gate>, bearer: String, peer: Option<Peer>, right: Right) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        match gate.check(&Caller { bearer: Some(&bearer), peer }, right).await {
            // A store that is unavailable for a while does not end open streams.
            Ok(()) | Err(Refused::Unavailable) => {}
            Err(_) => return,
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        let code = match refused {
            Refused::NoToken
            | Refused::Unknown
            | Refused::Expired
            | Refused::WrongKey
            | Refused::WrongPingKey => Code::Unauthenticated,
            Refused::Forbidden { .. } | Refused::NoCertificate => Code::Forbidden,
            Refused::TooMany { .. } => Code::TooManyFailures,
            Refused::Unavailable => Code::Unavailable,
        };
        Problem::new(code, refused.to_string())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = Failed(self.into()).into_response();
        let headers = response.headers_mut();
        let challenge = match self {
            Refused::NoToken => Some(CHALLENGE),
            Refused::Unknown | Refused::Expired | Refused::WrongKey | Refused::WrongPingKey => {
                Some(CHALLENGE_AGAIN)
            }
            _ => None,
        };
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Refused::TooMany { wait } = self {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
        }
        response
    }
}
