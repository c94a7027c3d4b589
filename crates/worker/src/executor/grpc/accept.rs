//! A gRPC task for an executor, which accepts the work and works on: `Start` starts the work, the `Watch` stream tells how
//! far it is, `Cancel` cancels it.

use std::time::Duration;

use punctual_core::attempt::Assignment;
use punctual_core::limits::{GRPC_POLL, GRPC_POLL_AGAIN};
use punctual_core::retry::Failed;
use punctual_core::task::{Code, Grpc};
use punctual_wire::grpc::v1::{CancelRequest, StartRequest};
use tokio::time::{Instant, sleep_until};
use tonic::Request;
use tonic::metadata::MetadataMap;

use super::stream::{Follower, client, in_words};
use crate::executor::accepted::{self, Poll, Service};
use crate::executor::http::{attempt_key, headers, of_run};
use crate::executor::{Attempt, Ending, Host, fail};
use crate::log::Transcript;

/// The executor is told a deadline that is later than our timeout by this: the client ends the call at the deadline too,
/// and our timeout says better what happened.
const DEADLINE_MARGIN: Duration = Duration::from_secs(1);

pub(super) async fn execute(grpc: &Grpc, attempt: Attempt, host: &Host) -> Ending {
    match Executor::new(grpc, &attempt, host) {
        Ok(mut executor) => accepted::execute(&mut executor, &attempt, host).await,
        Err(message) => fail(&attempt, message, host).await,
    }
}

struct Executor<'a> {
    grpc: &'a Grpc,
    assignment: &'a Assignment,
    /// JSON.
    message: String,
    /// Of the calls about this execution alone.
    metadata: MetadataMap,
    follower: Follower<'a>,
    /// When to ask for the execution, if nothing is told before.
    next_at: Instant,
}

impl<'a> Executor<'a> {
    /// The error is written for the job's author.
    fn new(grpc: &'a Grpc, attempt: &'a Attempt, host: &'a Host) -> Result<Executor<'a>, String> {
        let assignment = &attempt.assignment;
        let call =
            grpc.render(&assignment.values(attempt.started_at)).map_err(|invalid| invalid.to_string())?;
        let mut sent = headers("task.grpc.metadata", &call.metadata)?;
        let follower = Follower::new(grpc, assignment.run.to_string(), sent.clone(), host);
        sent.extend(of_run(assignment));
        sent.extend(attempt_key(assignment));
        Ok(Executor {
            grpc,
            assignment,
            message: call.message.to_string(),
            metadata: MetadataMap::from_headers(sent),
            follower,
            next_at: Instant::now(),
        })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        Request::from_parts(self.metadata.clone(), Default::default(), message)
    }

    fn id(&self) -> String {
        self.assignment.run.to_string()
    }

    /// Sets when to ask next.
    fn heard(&mut self, poll: Poll) -> Poll {
        let is_told = matches!(poll, Poll::Told(_));
        self.next_at = Instant::now() + if is_told { GRPC_POLL } else { GRPC_POLL_AGAIN };
        poll
    }
}

impl Service for Executor<'_> {
    const CANCEL: &'static str = "Cancel";

    fn timeout(&self) -> Duration {
        self.grpc.timeout
    }

    async fn start(&mut self, log: &Transcript) -> Result<(), (String, Failed)> {
        let Assignment { attempt, namespace, job, due, checkpoint, .. } = self.assignment;
        let begun = Instant::now();
        let mut request = self.request(StartRequest {
            execution_id: self.id(),
            attempt: *attempt,
            namespace: namespace.to_string(),
            job: job.as_ref().map(ToString::to_string),
            due_at: due.to_string(),
            message: self.message.clone(),
            checkpoint: checkpoint.as_deref().map(str::to_owned),
        });
        request.set_timeout(self.grpc.timeout + DEADLINE_MARGIN);
        let channel = self.follower.channel().await.map_err(|error| (error, Failed::Error))?;
        let answer = client(channel).start(request).await;
        let code = Code::of(answer.as_ref().err().map_or(0, |status| status.code() as i32));
        let took = begun.elapsed().as_millis();
        log.note(&format!("Start of {}: status {code} after {took} ms", self.grpc.address)).await;
        answer.map_err(|status| (in_words(&status, self.grpc), Failed::Status(code.http_status())))?;
        self.next_at = Instant::now();
        Ok(())
    }

    async fn ask(&mut self) -> Poll {
        let poll = self.follower.ask().await;
        self.heard(poll)
    }

    async fn next(&mut self) -> Poll {
        tokio::select! {
            biased;
            poll = self.follower.told() => self.heard(poll),
            () = sleep_until(self.next_at) => self.ask().await,
        }
    }

    async fn cancel(&self, _: &Transcript) -> String {
        let channel = match self.follower.channel().await {
            Ok(channel) => channel,
            Err(error) => return format!("Cancel failed, so the work may run on: {error}"),
        };
        match client(channel).cancel(self.request(CancelRequest { execution_id: self.id() })).await {
            Ok(_) => "the executor cancelled the work".to_owned(),
            Err(status) if status.code() == tonic::Code::NotFound => {
                "the executor does not know the work any longer".to_owned()
            }
            Err(status) => {
                format!("Cancel failed, so the work may run on: {}", in_words(&status, self.grpc))
            }
        }
    }
}
