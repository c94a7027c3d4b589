//! How the work of a receiver that accepts an HTTP request and works on is followed to its end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::address::{check_url, origin};
use crate::invalid::Invalid;
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

impl Accept {
    /// `url` is that of the request.
    pub(super) fn check(&self, url: &str) -> Result<(), Invalid> {
        if !(HTTP_POLL_MIN..=HTTP_POLL_MAX).contains(&self.poll) {
            return Err(Invalid::new("task.http.accept.poll", "100ms to 1h"));
        }
        let Some(all) = &self.all else { return Ok(()) };
        let refuse = |message: &str| Err(Invalid::new("task.http.accept.all", message));
        check_url("task.http.accept.all", all, &Scope::TASK)?;
        if all.contains("{{") {
            return refuse("is no template: it tells about the executions of many runs");
        }
        if origin(all) != origin(url) {
            return refuse("has the scheme, the host and the port of `task.http.url`");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Http, Method};

    fn accepting(url: &str, all: Option<&str>) -> Http {
        let accept = Accept { poll: Duration::from_secs(5), all: all.map(str::to_owned) };
        Http { method: Method::Post, accept: Some(accept), ..Http::get(url) }
    }

    #[track_caller]
    fn check_refused(http: &Http, field: &str) {
        assert_eq!(http.check_in(&Scope::TASK).unwrap_err().field, field, "{http:?}");
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
}
