//! REST's own check: the right that a route's row names is asked for before anything of the request is read.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use punctual_wire::rest::{Code, Problem};

use super::{Caller, Gate, Refused};
use crate::rest::problem::Failed;
use crate::routes::{Right, served};

/// Says that a token is wanted; the second form, that the one shown is no good.
const CHALLENGE: &str = "Bearer realm=\"punctual\"";
const CHALLENGE_AGAIN: &str = "Bearer realm=\"punctual\", error=\"invalid_token\"";

#[derive(Debug, Clone)]
pub(crate) struct Door {
    gate: Arc<Gate>,
    rights: Arc<HashMap<&'static str, Vec<(Method, Right)>>>,
}

impl Door {
    pub(crate) fn new(gate: Arc<Gate>) -> Door {
        let mut rights: HashMap<&'static str, Vec<(Method, Right)>> = HashMap::new();
        for route in served() {
            rights.entry(route.path).or_default().push((route.method, route.right));
        }
        Door { gate, rights: Arc::new(rights) }
    }

    /// None: nothing of ours is there.
    fn right_of(&self, method: &Method, path: Option<&MatchedPath>) -> Option<Right> {
        // HEAD is answered by whoever answers GET.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let rows = self.rights.get(path?.as_str())?;
        rows.iter().find(|(of, _)| of == method).map(|(_, right)| *right)
    }
}

pub(crate) async fn check(State(door): State<Door>, request: Request, next: Next) -> Response {
    let right = door.right_of(request.method(), request.extensions().get::<MatchedPath>());
    let caller = Caller::of(request.headers(), request.extensions());
    let checked = match right {
        Some(right) => door.gate.check(&caller, right).await,
        // A stranger does not even learn what there is.
        None => door.gate.knows(&caller).await,
    };
    match checked {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let code = match self {
            Refused::NoToken | Refused::Unknown | Refused::Expired => Code::Unauthenticated,
            Refused::Forbidden { .. } | Refused::NoCertificate => Code::Forbidden,
            Refused::TooMany { .. } => Code::TooManyFailures,
            Refused::Unavailable => Code::Unavailable,
        };
        let mut response = Failed(Problem::new(code, self.to_string())).into_response();
        let headers = response.headers_mut();
        let challenge = match self {
            Refused::NoToken => Some(CHALLENGE),
            Refused::Unknown | Refused::Expired => Some(CHALLENGE_AGAIN),
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
