//! HTTP and gRPC tasks whose receiver accepts the request and works on: how the work is followed to its end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::http::{check_url, scheme_and_authority};
use super::{Grpc, GrpcExpect, Http, Method, Task};
use crate::invalid::Invalid;
use crate::job::{Definition, Strategy};
use crate::limits::{HTTP_POLL_MAX, HTTP_POLL_MIN};
use crate::template::Scope;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accept {
    /// The time between two polls.
    pub poll: Duration,
    /// A URL of the same origin that tells about all executions at once. `None` means that each execution is asked for
    /// by itself.
    pub all: Option<String>,
}

impl Http {
    /// The scheme, the host and the port of its URL: none of them is a template.
    pub fn origin(&self) -> String {
        origin(&self.url)
    }

    pub(super) fn check_accept(&self) -> Result<(), Invalid> {
        let Some(Accept { poll, all }) = &self.accept else { return Ok(()) };
        if !matches!(self.method, Method::Post | Method::Put | Method::Patch) {
            let message =
                "with `accept`, GET polls and DELETE cancels; start the work with POST, PUT or PATCH";
            return Err(Invalid::new("task.http.method", message));
        }
        if !(HTTP_POLL_MIN..=HTTP_POLL_MAX).contains(poll) {
            return Err(Invalid::new("task.http.accept.poll", "100ms to 1h"));
        }
        let Some(all) = all else { return Ok(()) };
        let refuse = |message: &str| Err(Invalid::new("task.http.accept.all", message));
        check_url("task.http.accept.all", all, &Scope::TASK)?;
        if all.contains("{{") {
            return refuse("is no template: it tells about the executions of many runs");
        }
        if origin(all) != self.origin() {
            return refuse("has the scheme, the host and the port of `task.http.url`");
        }
        Ok(())
    }
}

impl Grpc {
    /// The address, and whether it is called with TLS.
    fn origin(&self) -> String {
        let scheme = if self.tls.is_some() { "grpcs" } else { "grpc" };
        format!("{scheme}://{}", self.address.to_ascii_lowercase())
    }

    pub(super) fn check_accept(&self) -> Result<(), Invalid> {
        if !self.accept {
            return Ok(());
        }
        if self.expect != GrpcExpect::default() {
            let message = "with `accept`, the executor says whether the work has succeeded";
            return Err(Invalid::new("task.grpc.expect", message));
        }
        match self.descriptor {
            Some(_) => {
                let message = "with `accept`, the schema is that of punctual.v1.Executor";
                Err(Invalid::new("task.grpc.descriptor", message))
            }
            None => Ok(()),
        }
    }
}

impl Definition {
    /// The origin that its workers poll. Runs that leave the choice of their worker open go to one worker for each
    /// origin, so that one connection is enough.
    pub fn polled_origin(&self) -> Option<String> {
        let is_open = self.route.strategy == Strategy::LeastLoaded && !self.route.splits();
        match &self.task {
            Task::Http(http) if http.accept.is_some() && is_open => Some(http.origin()),
            Task::Grpc(grpc) if grpc.accept && is_open => Some(grpc.origin()),
            _ => None,
        }
    }

    /// Whether the work is done by a service, and goes on without its worker.
    pub fn is_accepted_elsewhere(&self) -> bool {
        match &self.task {
            Task::Http(http) => http.accept.is_some(),
            Task::Grpc(grpc) => grpc.accept,
            Task::Noop
            | Task::Shell(_)
            | Task::Process(_)
            | Task::Function(_)
            | Task::Queue(_)
            | Task::Workflow(_)
            | Task::Job(_) => false,
        }
    }
}

fn origin(url: &str) -> String {
    let (scheme, authority) = scheme_and_authority(url).unwrap_or_default();
    let authority = authority.to_ascii_lowercase();
    let default = if scheme == "https" { ":443" } else { ":80" };
    format!("{scheme}://{}", authority.strip_suffix(default).unwrap_or(&authority))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Route;
    use crate::task::{GrpcTls, NamedDescriptor};

    fn accepting(url: &str, all: Option<&str>) -> Http {
        let accept = Accept { poll: Duration::from_secs(5), all: all.map(str::to_owned) };
        Http { method: Method::Post, accept: Some(accept), ..Http::get(url) }
    }

    #[track_caller]
    fn check_refused(http: &Http, field: &str) {
        assert_eq!(http.check_in(&Scope::TASK).unwrap_err().field, field, "{http:?}");
    }

    #[test]
    fn the_origin_is_the_same_however_it_is_written() {
        for url in ["https://Example.com/a", "HTTPS://example.com:443/{{ run.id }}?b", "https://example.com"]
        {
            assert_eq!(Http::get(url).origin(), "https://example.com", "{url}");
        }
        assert_eq!(Http::get("http://[::1]:8080/a").origin(), "http://[::1]:8080");
    }

    #[test]
    fn work_that_cannot_be_followed_is_refused() {
        let url = "http://example.com/tasks/{{ run.id }}";
        assert_eq!(accepting(url, Some("http://EXAMPLE.com:80/tasks")).check_in(&Scope::TASK), Ok(()));
        check_refused(&accepting(url, Some("https://example.com/tasks")), "task.http.accept.all");
        check_refused(&accepting(url, Some("http://example.com/{{ run.id }}")), "task.http.accept.all");
        check_refused(&accepting(url, Some("/tasks")), "task.http.accept.all");
        for method in [Method::Get, Method::Head, Method::Delete, Method::Options] {
            check_refused(&Http { method, ..accepting(url, None) }, "task.http.method");
        }
        for poll in [Duration::ZERO, HTTP_POLL_MAX + Duration::from_millis(1)] {
            let accept = Some(Accept { poll, all: None });
            check_refused(&Http { accept, ..accepting(url, None) }, "task.http.accept.poll");
        }
        let headers = [("Execution_Id".to_owned(), "7".to_owned())].into();
        check_refused(&Http { headers, ..accepting(url, None) }, "task.http.headers.Execution_Id");
    }

    #[test]
    fn an_accepting_job_without_a_route_goes_by_its_origin() {
        let job = |http| Definition::of(Task::Http(Box::new(http)));
        let accepting = job(accepting("http://example.com/a", None));
        assert_eq!(accepting.polled_origin().as_deref(), Some("http://example.com"));
        let route = Route { strategy: Strategy::First, ..Route::default() };
        assert_eq!(Definition { route, ..accepting }.polled_origin(), None);
        assert_eq!(job(Http::get("http://example.com/a")).polled_origin(), None);
    }

    #[test]
    fn work_for_an_executor_goes_by_its_address() {
        let job = |grpc| Definition::of(Task::Grpc(Box::new(grpc)));
        let work = job(Grpc::work("Example.com:50051"));
        assert_eq!(work.polled_origin().as_deref(), Some("grpc://example.com:50051"));
        assert!(work.is_accepted_elsewhere());
        let secured = Grpc { tls: Some(GrpcTls::default()), ..Grpc::work("example.com:50051") };
        assert_eq!(job(secured).polled_origin().as_deref(), Some("grpcs://example.com:50051"));
        let call = job(Grpc::call("example.com:50051", "a.B/C"));
        assert_eq!((call.polled_origin(), call.is_accepted_elsewhere()), (None, false));
    }

    #[test]
    fn what_an_executor_decides_or_knows_is_refused() {
        let refused = |grpc: Grpc| grpc.check_in(&Scope::TASK).unwrap_err().field;
        let work = || Grpc::work("example.com:50051");
        assert_eq!(work().check_in(&Scope::TASK), Ok(()));
        let expect = GrpcExpect { condition: Some("json.ok".to_owned()), ..GrpcExpect::default() };
        assert_eq!(refused(Grpc { expect, ..work() }), "task.grpc.expect");
        let descriptor = Some(NamedDescriptor { name: "a".parse().unwrap(), carried: None });
        assert_eq!(refused(Grpc { descriptor, ..work() }), "task.grpc.descriptor");
    }
}
