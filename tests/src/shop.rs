//! A gRPC server that knows nothing of Punctual: a service of `shop.proto`, with reflection or without.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use prost::Message;
use protox::file::{File, FileResolver, GoogleFileResolver};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::metadata::MetadataMap;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tonic_reflection::server::Builder;

#[derive(Clone, PartialEq, Message)]
struct Order {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(string, tag = "2")]
    customer_name: String,
    #[prost(message, repeated, tag = "3")]
    lines: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint32, tag = "1")]
    amount: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Receipt {
    #[prost(bool, tag = "1")]
    is_settled: bool,
    #[prost(int64, tag = "2")]
    total: i64,
    #[prost(string, tag = "3")]
    customer: String,
}

#[derive(Debug, Default)]
struct Seen {
    /// Of each call of `Settle`.
    metadata: Vec<MetadataMap>,
    /// Calls that ended before they had an answer.
    dropped: usize,
}

/// Which version of reflection the server offers.
#[derive(Debug, Clone, Copy)]
pub enum Reflection {
    V1,
    V1Alpha,
    None,
}

/// A server on a free port; it ends with this value.
#[derive(Debug)]
pub struct Shop {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    serving: JoinHandle<()>,
}

impl Shop {
    pub async fn start(reflection: Reflection) -> Shop {
        Shop::start_on(Server::builder(), reflection).await
    }

    /// A server with further settings, such as TLS.
    pub async fn start_on(mut server: Server, reflection: Reflection) -> Shop {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let seen = Arc::<Mutex<Seen>>::default();
        let schema = schema();
        let about = || Builder::configure().register_encoded_file_descriptor_set(&schema);
        let router = server.add_service(Orders(Arc::clone(&seen)));
        let router = match reflection {
            Reflection::V1 => router.add_service(about().build_v1().expect("the schema is good")),
            Reflection::V1Alpha => router.add_service(about().build_v1alpha().expect("the schema is good")),
            Reflection::None => router,
        };
        let serving = router.serve_with_incoming(TcpIncoming::from(listener));
        let serving = tokio::spawn(async move { serving.await.expect("it serves") });
        Shop { address, seen, serving }
    }

    /// The metadata of each call so far.
    pub fn metadata(&self) -> Vec<MetadataMap> {
        lock(&self.seen).metadata.clone()
    }

    /// Calls that ended before they had an answer.
    pub fn dropped(&self) -> usize {
        lock(&self.seen).dropped
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

pub const PROTO: &str = include_str!("shop.proto");

/// `shop.proto` and what it imports, as a `google.protobuf.FileDescriptorSet`.
pub fn schema() -> Vec<u8> {
    struct Files;

    impl FileResolver for Files {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            match name {
                "shop.proto" => File::from_source(name, PROTO),
                _ => GoogleFileResolver::new().open_file(name),
            }
        }
    }

    let mut compiler = protox::Compiler::with_file_resolver(Files);
    compiler.include_imports(true).open_file("shop.proto").expect("it is well written");
    compiler.encode_file_descriptor_set()
}

/// The service. The id of an order says what becomes of it.
#[derive(Debug, Clone)]
struct Orders(Arc<Mutex<Seen>>);

impl NamedService for Orders {
    const NAME: &'static str = "shop.v1.Orders";
}

impl Service<http::Request<Body>> for Orders {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        assert_eq!(request.uri().path(), "/shop.v1.Orders/Settle");
        let orders = self.clone();
        Box::pin(async move {
            let codec = ProstCodec::<Receipt, Order>::default();
            Ok(tonic::server::Grpc::new(codec).unary(orders, request).await)
        })
    }
}

/// Counts a call that is dropped.
struct Waiting(Arc<Mutex<Seen>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.0).dropped += 1;
    }
}

impl UnaryService<Order> for Orders {
    type Response = Receipt;
    type Future = BoxFuture<Response<Receipt>, Status>;

    fn call(&mut self, request: Request<Order>) -> Self::Future {
        let seen = Arc::clone(&self.0);
        lock(&seen).metadata.push(request.metadata().clone());
        let order = request.into_inner();
        Box::pin(async move {
            let total = order.lines.iter().map(|line| i64::from(line.amount)).sum();
            let receipt = Receipt { is_settled: total > 0, total, customer: order.customer_name };
            match order.id {
                404 => Err(Status::not_found("there is no order 404")),
                503 => Err(Status::unavailable("closed at night")),
                7 => {
                    let _waiting = Waiting(seen);
                    std::future::pending().await
                }
                8 => Ok(Response::new(Receipt { customer: "x".repeat(1024 * 1024), ..receipt })),
                _ => {
                    let mut response = Response::new(receipt);
                    response.metadata_mut().insert("served-by", "till-3".parse().expect("it is plain text"));
                    Ok(response)
                }
            }
        })
    }
}
