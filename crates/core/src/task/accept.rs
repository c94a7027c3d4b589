//! HTTP tasks whose receiver accepts the request and works on: how the work is followed to its end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::http::{check_url, scheme_and_authority};
use super::{Http, Method, Task};
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

impl Definition {
    /// The origin that its workers poll. Runs that leave the choice of their worker open go to one worker for each
    /// origin, so that one connection is enough.
    pub fn polled_origin(&self) -> Option<String> {
        let Task::Http(http) = &self.task else { return None };
        let is_open = self.route.strategy == Strategy::LeastLoaded && !self.route.splits();
        (http.accept.is_some() && is_open).then(|| http.origin())
    }

    /// Whether the work is done by a service, and goes on without its worker.
    pub fn is_accepted_elsewhere(&self) -> bool {
        matches!(&self.task, Task::Http(http) if http.accept.is_some())
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
}
