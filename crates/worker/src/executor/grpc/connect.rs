//! Opens the connection of a gRPC task. The egress rules are checked each time it is opened.

use std::error::Error;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use punctual_core::task::{Grpc, GrpcTls};
use tokio::net::TcpStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Uri};
use tower::service_fn;

use crate::egress::Egress;
use crate::executor::failure::{explain_connect, innermost};
use crate::executor::http::{CONNECT_MAX, read_ca};

/// The error is written for the job's author.
pub(super) async fn connect(grpc: &Grpc, egress: &Arc<Egress>) -> Result<Channel, String> {
    let scheme = if grpc.tls.is_some() { "https" } else { "http" };
    let url: Uri = format!("{scheme}://{}", grpc.address)
        .parse()
        .map_err(|error| format!("task.grpc.address: {error}"))?;
    let (Some(host), Some(port)) = (url.host().map(str::to_owned), url.port_u16()) else {
        return Err("task.grpc.address: must be a host and a port".to_owned());
    };
    let endpoint = Endpoint::from(url)
        .connect_timeout(CONNECT_MAX)
        .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
        .map_err(|error| innermost(&error))?;
    let endpoint = match &grpc.tls {
        Some(tls) => secured(endpoint, tls, &host).await?,
        None => endpoint,
    };
    let egress = Arc::clone(egress);
    let connector = service_fn(move |_: Uri| open(Arc::clone(&egress), host.clone(), port));
    let connecting = endpoint.connect_with_connector(connector);
    connecting.await.map_err(|error| explain_connect(&error, &grpc.address, grpc.tls.is_some()))
}

type BoxError = Box<dyn Error + Send + Sync>;

async fn open(egress: Arc<Egress>, host: String, port: u16) -> Result<TokioIo<TcpStream>, BoxError> {
    let addresses = egress.addresses(&host, port).await?;
    let stream = TcpStream::connect(addresses.as_slice()).await?;
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(stream))
}

/// Reading the machine's certificates is slow, so another thread does it.
async fn secured(endpoint: Endpoint, tls: &GrpcTls, host: &str) -> Result<Endpoint, String> {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut config = ClientTlsConfig::new().with_native_roots().domain_name(name);
    if let Some(path) = &tls.ca {
        let (pem, _) = read_ca("task.grpc.tls.ca", path).await?;
        config = config.ca_certificate(Certificate::from_pem(pem));
    }
    let making = tokio::task::spawn_blocking(move || endpoint.tls_config(config));
    let made = making.await.map_err(|error| error.to_string())?;
    made.map_err(|error| format!("cannot make ready for TLS: {}", innermost(&error)))
}
