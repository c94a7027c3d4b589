//! An HTTP task whose receiver accepts the request and works on: POST starts the work, GET asks for it, DELETE cancels it.

use std::time::Duration;

use punctual_core::attempt::Assignment;
use punctual_core::retry::Failed;
use punctual_core::task::{Accept, Http, Method, Request};
use punctual_core::template::Values;

use super::super::accepted::{self, Poll, Service};
use super::super::{Attempt, Ending, Host, fail};
use super::answer::Answer;
use super::client::Clients;
use super::poll::Poller;
use super::{call, exchange};
use crate::log::Transcript;

pub(super) async fn execute(http: &Http, accept: &Accept, attempt: Attempt, host: &Host) -> Ending {
    let values = attempt.assignment.values(attempt.started_at);
    let ready = http.render(&values).map_err(|invalid| invalid.to_string()).and_then(|request| {
        let poller = Poller::new(http, accept, &request, &attempt.assignment, &host.clients)?;
        Ok((request, poller))
    });
    match ready {
        Ok((request, poller)) => {
            let (assignment, clients) = (&attempt.assignment, &host.clients);
            let mut receiver = Receiver { http, request, values, assignment, clients, poller };
            accepted::execute(&mut receiver, &attempt, host).await
        }
        Err(message) => fail(&attempt, message, host).await,
    }
}

struct Receiver<'a> {
    http: &'a Http,
    request: Request,
    values: Values,
    assignment: &'a Assignment,
    clients: &'a Clients,
    poller: Poller<'a>,
}

impl Service for Receiver<'_> {
    const CANCEL: &'static str = "DELETE";

    fn timeout(&self) -> Duration {
        self.http.timeout
    }

    async fn start(&mut self, log: &Transcript) -> Result<(), (String, Failed)> {
        let Receiver { http, request, values, assignment, clients, poller } = self;
        let mut answer = Answer::default();
        exchange(http, request.clone(), assignment, values.clone(), &mut answer, clients, log)
            .await
            .map_err(|error| (error, answer.unexpected_status(http).map_or(Failed::Error, Failed::Status)))?;
        poller.wait();
        Ok(())
    }

    async fn ask(&mut self) -> Poll {
        self.poller.ask().await
    }

    async fn next(&mut self) -> Poll {
        self.poller.next().await
    }

    async fn cancel(&self, log: &Transcript) -> String {
        let http = Http { method: Method::Delete, redirects: 0, ..self.http.clone() };
        let request = Request { body: None, ..self.request.clone() };
        match call::call(&http, request, self.assignment, self.clients, log).await {
            Ok(response) if response.status().is_success() => "the receiver cancelled the work".to_owned(),
            Ok(response) if matches!(response.status().as_u16(), 404 | 410) => {
                "the receiver does not know the work any longer".to_owned()
            }
            Ok(response) => format!("DELETE had status {}, so the work may run on", response.status()),
            Err(error) => format!("DELETE failed, so the work may run on: {error}"),
        }
    }
}
