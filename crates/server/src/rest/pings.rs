//! Pings: a program outside Punctual reports its runs. The key of a ping opens its three routes and nothing else.

use axum::extract::{Request, State};
use axum::{Extension, Json};
use punctual_core::command::{Answer, Command, Ping, Refusal, Signal};
use punctual_core::cut::keep_end;
use punctual_core::ids::RunId;
use punctual_core::job::Invalid;
use punctual_core::limits::PING_TEXT_BYTES_MAX;
use punctual_wire::Text;
use punctual_wire::rest::{Code, PingKey, Pinged, Problem};
use serde::Deserialize;

use super::ask::unexpected;
use super::body;
use super::problem::Failed;
use super::request::{Asked, Named};
use crate::Endpoints;
use crate::auth::{PingOf, Refused};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asking {
    /// The access check has read it.
    #[serde(rename = "key")]
    _key: Option<String>,
    run: Option<Text<RunId>>,
    exit_code: Option<Text<i32>>,
}

pub(crate) async fn succeed(
    State(endpoints): State<Endpoints>,
    at: Named,
    Extension(of): Extension<PingOf>,
    Asked(asking): Asked<Asking>,
    request: Request,
) -> Result<Json<Pinged>, Failed> {
    check(&endpoints, &at, of).await?;
    record(&endpoints, at, asking, request, Signal::Succeeded).await
}

pub(crate) async fn start(
    State(endpoints): State<Endpoints>,
    at: Named,
    Extension(of): Extension<PingOf>,
    Asked(asking): Asked<Asking>,
    request: Request,
) -> Result<Json<Pinged>, Failed> {
    check(&endpoints, &at, of).await?;
    record(&endpoints, at, asking, request, Signal::Started).await
}

pub(crate) async fn fail(
    State(endpoints): State<Endpoints>,
    at: Named,
    Extension(of): Extension<PingOf>,
    Asked(asking): Asked<Asking>,
    request: Request,
) -> Result<Json<Pinged>, Failed> {
    check(&endpoints, &at, of).await?;
    record(&endpoints, at, asking, request, Signal::Failed).await
}

/// Refuses a key of another job, or with an earlier number. The caller does not learn which pings exist.
async fn check(endpoints: &Endpoints, at: &Named, shown: PingOf) -> Result<(), Failed> {
    let job = endpoints.handle.reads().job(&at.namespace, &at.name).await?;
    let newest = job.and_then(|job| {
        let number = job.definition.ping()?.key;
        Some(PingOf { job: job.id, number })
    });
    if newest == Some(shown) { Ok(()) } else { Err(Failed(Refused::WrongPingKey.into())) }
}

async fn record(
    endpoints: &Endpoints,
    at: Named,
    asking: Asking,
    request: Request,
    signal: Signal,
) -> Result<Json<Pinged>, Failed> {
    let text = body::text(request).await?;
    let ping = Ping {
        namespace: at.namespace,
        name: at.name,
        signal,
        run: asking.run.map(|run| run.0),
        exit_code: asking.exit_code.map(|code| code.0),
        text: keep_end(text.trim_end(), PING_TEXT_BYTES_MAX).into(),
    };
    match endpoints.handle.command(Command::Ping(ping)).await? {
        Answer::Run(run) => Ok(Json(Pinged::from(&*run))),
        other => Err(unexpected(&other)),
    }
}

pub(crate) async fn key(State(endpoints): State<Endpoints>, at: Named) -> Result<Json<PingKey>, Failed> {
    let job = endpoints.find_job(&at.namespace, &at.name).await?;
    let Some(ping) = job.definition.ping() else {
        let invalid = Invalid::new("name", format!("job `{}` is not a ping", at.name));
        return Err(Refusal::from(invalid).into());
    };
    let Some(keys) = endpoints.handle.attempt_keys() else {
        return Err(Problem::new(Code::Unavailable, "this node has no secret for keys").into());
    };
    let path = format!("/api/v1/namespaces/{}/pings/{}", at.namespace.dotted(), at.name);
    Ok(Json(PingKey { key: keys.ping_key(job.id, ping.key).to_string(), path }))
}
