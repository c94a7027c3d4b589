//! A service that does long work for Punctual over gRPC: it starts work, tells how far it is, and cancels it. Start it with
//! `cargo run --example executor 50051`, then run the job of executor.yaml.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

// Made from proto/punctual/v1/executor.proto, as `tonic-prost-build` makes it for every program.
use punctual::wire::grpc::v1::execution::Status as State;
use punctual::wire::grpc::v1::executor_server::{Executor, ExecutorServer};
use punctual::wire::grpc::v1::{CancelRequest, CancelResponse, Execution, StartRequest, StartResponse};
use punctual::wire::grpc::v1::{WatchRequest, WatchResponse};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

/// All executions by their ids. Those that have ended stay: a later attempt may ask for them.
#[derive(Clone, Default)]
struct Settlements(watch::Sender<HashMap<String, Execution>>);

impl Settlements {
    fn get(&self, id: &str) -> Execution {
        let known = self.0.borrow().get(id).cloned();
        known.unwrap_or_else(|| told(id, State::Unknown))
    }

    /// False: it runs or has succeeded, so there is nothing to start.
    fn begin(&self, id: &str) -> bool {
        self.0.send_if_modified(|all| {
            let known = all.get(id).map(Execution::status);
            let is_new = !matches!(known, Some(State::Running | State::Succeeded));
            if is_new {
                all.insert(id.to_owned(), told(id, State::Running));
            }
            is_new
        })
    }

    /// Sets the state of an execution that runs. False: it runs no longer.
    fn set(&self, now: Execution) -> bool {
        self.0.send_if_modified(|all| match all.get_mut(&now.execution_id) {
            Some(execution) if execution.status() == State::Running => {
                *execution = now;
                true
            }
            _ => false,
        })
    }

    /// The work itself. It ends early if it is cancelled.
    async fn settle(self, id: String, from: u32, rows: u32) {
        for row in from + 1..=rows {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let (percent, message) = (Some(100 * row / rows), Some(format!("row {row}")));
            let checkpoint = Some(format!(r#"{{"row":{row}}}"#));
            if !self.set(Execution { percent, message, checkpoint, ..told(&id, State::Running) }) {
                return;
            }
        }
        let result = Some(format!("{rows} rows"));
        self.set(Execution { percent: Some(100), result, ..told(&id, State::Succeeded) });
    }
}

fn told(id: &str, status: State) -> Execution {
    Execution { execution_id: id.to_owned(), status: status.into(), ..Execution::default() }
}

/// A number in a JSON object.
fn number(json: &str, field: &str) -> Option<u32> {
    serde_json::from_str::<serde_json::Value>(json).ok()?[field].as_u64()?.try_into().ok()
}

#[tonic::async_trait]
impl Executor for Settlements {
    type WatchStream = ReceiverStream<Result<WatchResponse, Status>>;

    async fn start(&self, request: Request<StartRequest>) -> Result<Response<StartResponse>, Status> {
        let StartRequest { execution_id: id, message, checkpoint, .. } = request.into_inner();
        let rows = number(&message, "rows");
        let rows = rows.ok_or_else(|| Status::invalid_argument("message.rows: must be a number"))?;
        let from = checkpoint.and_then(|at| number(&at, "row")).unwrap_or(0);
        if self.begin(&id) {
            println!("start {id}");
            tokio::spawn(self.clone().settle(id, from, rows));
        }
        Ok(Response::new(StartResponse {}))
    }

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        println!("watch");
        let (tell, answers) = mpsc::channel(64);
        tokio::spawn(follow(self.clone(), request.into_inner(), tell));
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn cancel(&self, request: Request<CancelRequest>) -> Result<Response<CancelResponse>, Status> {
        let id = request.into_inner().execution_id;
        println!("cancel {id}");
        self.set(Execution { message: Some("cancelled".to_owned()), ..told(&id, State::Failed) });
        Ok(Response::new(CancelResponse {}))
    }
}

/// Answers what is asked on a stream, and tells what changes. It ends when the worker closes the stream.
async fn follow(
    all: Settlements,
    mut asked: Streaming<WatchRequest>,
    tell: mpsc::Sender<Result<WatchResponse, Status>>,
) {
    let mut changes = all.0.subscribe();
    // What was told last about each execution that the worker follows. `None`: the worker has just asked.
    let mut followed: HashMap<String, Option<Execution>> = HashMap::new();
    loop {
        tokio::select! {
            request = asked.message() => match request {
                Ok(Some(request)) => followed.extend(request.execution_ids.into_iter().map(|id| (id, None))),
                _ => return,
            },
            _ = changes.changed() => {}
        }
        let mut executions = Vec::new();
        for (id, last) in &mut followed {
            let now = all.get(id);
            if last.as_ref() != Some(&now) {
                executions.push(now.clone());
                *last = Some(now);
            }
        }
        if !executions.is_empty() && tell.send(Ok(WatchResponse { executions })).await.is_err() {
            return;
        }
        // What has ended does not change any more.
        followed.retain(|_, last| last.as_ref().is_some_and(|told| told.status() == State::Running));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).map_or(Ok(50051), |port| port.parse())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("port {}", listener.local_addr()?.port());
    let service = ExecutorServer::new(Settlements::default());
    Ok(Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener)).await?)
}
