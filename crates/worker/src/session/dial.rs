//! Connects to a node.

use std::time::Duration;

use punctual_wire::grpc::v1;
use punctual_wire::grpc::v1::worker_client::WorkerClient;
use punctual_wire::grpc::{MESSAGE_BYTES_MAX, WORKER_PROTOCOL};
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status, Streaming};

use super::outbox::{Outbox, Outgoing};
use super::{Authorities, Refused, Saying, Settings};
use crate::causes::in_full;

/// Connect timeout.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Keep-alive interval and timeout of an idle connection: a silently broken connection is noticed within their sum.
const PING_EVERY: Duration = Duration::from_secs(5);
const PING_MAX: Duration = Duration::from_secs(5);
/// Bytes that a node may send before we have read them.
const STREAM_WINDOW: u32 = 2 * 1024 * 1024;

/// Why there is no stream.
#[derive(Debug, Clone)]
pub(crate) enum Trouble {
    /// The node may be reachable later.
    Unreachable(String),
    /// The node would refuse again.
    Refused(Refused),
}

pub(crate) struct Dialled {
    pub(crate) welcome: v1::Welcome,
    pub(crate) incoming: Streaming<v1::FromNode>,
}

/// The host in the URL of the node in this process. No host name contains a space.
const NEAR: &str = "this process";

/// The URL of the node in this process; the nodes it names are dialled with the same scheme.
pub(crate) fn near_url(over_tls: bool) -> String {
    format!("{}://{NEAR}", if over_tls { "https" } else { "http" })
}

/// Opens a stream and waits for the welcome.
pub(crate) async fn dial(url: &str, settings: &Settings, outbox: &Outbox) -> Result<Dialled, Trouble> {
    let dialling = async {
        let near = settings.near.as_ref().filter(|_| url.ends_with(NEAR));
        let mut incoming = match near {
            Some(near) => near.session(Saying(Outgoing(outbox.clone()))).await,
            None => session(connect(url, settings).await?, settings, outbox).await,
        }
        .map_err(|status| trouble(url, &status))?;
        let first = incoming.message().await.map_err(|status| trouble(url, &status))?;
        let welcome = first.and_then(|message| message.welcome);
        let welcome = welcome.ok_or_else(|| unreachable(url, "it ended the stream without a welcome"))?;
        if welcome.protocol != WORKER_PROTOCOL {
            let (theirs, ours) = (welcome.protocol, WORKER_PROTOCOL);
            let version = &welcome.version;
            let why =
                format!("it is version {version} and speaks protocol {theirs}, this worker speaks {ours}");
            return Err(refused(url, &why));
        }
        Ok(Dialled { welcome, incoming })
    };
    let late = || unreachable(url, "no answer within ten seconds");
    tokio::time::timeout(2 * CONNECT_MAX, dialling).await.unwrap_or_else(|_| Err(late()))
}

async fn session(
    channel: Channel,
    settings: &Settings,
    outbox: &Outbox,
) -> Result<Streaming<v1::FromNode>, Status> {
    let mut client = WorkerClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let mut request = Request::new(Outgoing(outbox.clone()));
    if let Some(token) = &settings.token {
        let value = MetadataValue::try_from(format!("Bearer {token}"))
            .map_err(|_| Status::unauthenticated("the token is not plain text"))?;
        request.metadata_mut().insert("authorization", value);
    }
    client.session(request).await.map(tonic::Response::into_inner)
}

async fn connect(url: &str, settings: &Settings) -> Result<Channel, Trouble> {
    let wrong = |error: &dyn std::fmt::Display| refused(url, &format!("not a URL to dial: {error}"));
    let mut endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| wrong(&error))?;
    if endpoint.uri().scheme_str() == Some("https") {
        let mut tls = ClientTlsConfig::new().with_native_roots();
        match &settings.ca {
            None => {}
            Some(Authorities::Given(pem)) => tls = tls.ca_certificate(Certificate::from_pem(pem)),
            Some(Authorities::File(path)) => {
                let pem = std::fs::read(path);
                let pem = pem.map_err(|error| unreachable(url, &format!("{}: {error}", path.display())))?;
                tls = tls.ca_certificate(Certificate::from_pem(pem));
            }
        }
        endpoint = endpoint.tls_config(tls).map_err(|error| wrong(&error))?;
    }
    endpoint
        .connect_timeout(CONNECT_MAX)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_MAX)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW)
        .connect()
        .await
        .map_err(|error| unreachable(url, &in_full(&error)))
}

pub(crate) fn trouble(url: &str, status: &Status) -> Trouble {
    let said = status.message();
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => refused(url, said),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => refused(url, said),
        Code::Unimplemented => {
            let why = "it does not take workers; --server must name a Punctual server of this version";
            refused(url, why)
        }
        _ if said.is_empty() => unreachable(url, &in_full(status)),
        _ => unreachable(url, said),
    }
}

fn unreachable(url: &str, why: &str) -> Trouble {
    Trouble::Unreachable(format!("{url}: {why}"))
}

fn refused(url: &str, why: &str) -> Trouble {
    Trouble::Refused(Refused(format!("{url} refuses this worker: {why}")))
}
