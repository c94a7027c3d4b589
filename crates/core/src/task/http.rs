//! The HTTP request of a job, and the response it expects.
//!
//! The scheme, the host and the port cannot be templates (see `address`). In the rest of the URL the result of an
//! expression is percent-encoded, so that it stays one part. Whether the address may be called at all is decided by the
//! worker.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::accept::Accept;
use super::address::{check_url, origin};
use super::call_checks::{check_ca, check_timeout, parse_condition};
use super::headers::{check_headers, render_headers};
use super::json::{check_json, render_json};
use super::process::template;
use crate::invalid::Invalid;
use crate::limits::{HTTP_BODY_BYTES_MAX, HTTP_STATUS_RANGES_MAX, HTTP_TIMEOUT, URL_BYTES_MAX};
use crate::status_range::StatusRange;
use crate::template::{Condition, Scope, Template, Values};

/// Redirects followed at most, and by default.
pub const HTTP_REDIRECTS_MAX: u8 = 5;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http {
    pub url: String,
    pub method: Method,
    pub headers: BTreeMap<String, String>,
    pub body: Option<Body>,
    /// For the whole request, including redirects and the body.
    pub timeout: Duration,
    pub redirects: u8,
    pub expect: Expect,
    /// A PEM file on the worker with certificates that are trusted besides the system's.
    pub ca: Option<String>,
    /// How work is followed that goes on after the response. `None` means that the response ends the work.
    pub accept: Option<Accept>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    Text(String),
    /// JSON as text. Each string in it is a template.
    Json(String),
}

/// What the response must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// The status must be in one of these ranges.
    pub status: Vec<StatusRange>,
    /// A text that the body must contain.
    pub body: Option<String>,
    pub condition: Option<String>,
}

/// A request with every expression evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub url: String,
    pub headers: BTreeMap<String, String>,
    pub body: Option<String>,
}

impl Default for Expect {
    fn default() -> Self {
        Expect { status: vec![StatusRange::SUCCESS], body: None, condition: None }
    }
}

impl Method {
    pub fn word(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
        }
    }
}

/// The header that names the run to a receiver that works on.
pub const EXECUTION_ID: &str = "execution_id";

impl Http {
    /// A plain GET.
    pub fn get(url: impl Into<String>) -> Http {
        Http {
            url: url.into(),
            method: Method::Get,
            headers: BTreeMap::new(),
            body: None,
            timeout: HTTP_TIMEOUT,
            redirects: HTTP_REDIRECTS_MAX,
            expect: Expect::default(),
            ca: None,
            accept: None,
        }
    }

    /// The scheme, the host and the port of its URL: none of them is a template.
    pub fn origin(&self) -> String {
        origin(&self.url)
    }

    /// `scope` has the variables of its templates.
    pub(crate) fn check_in(&self, scope: &Scope<'_>) -> Result<(), Invalid> {
        check_url("task.http.url", &self.url, scope)?;
        let names_work = |name: &str| self.accept.is_some() && name == EXECUTION_ID;
        check_headers("task.http.headers", &self.headers, names_work, scope)?;
        self.check_body(scope)?;
        self.check_expect()?;
        check_timeout("task.http.timeout", self.timeout)?;
        if self.redirects > HTTP_REDIRECTS_MAX {
            return Err(Invalid::new("task.http.redirects", format!("at most {HTTP_REDIRECTS_MAX}")));
        }
        check_ca("task.http.tls.ca", self.ca.as_deref())?;
        self.check_accept()
    }

    fn check_body(&self, scope: &Scope<'_>) -> Result<(), Invalid> {
        if self.body.is_some() && matches!(self.method, Method::Get | Method::Head) {
            let message =
                format!("a {} has no body; write `method: POST`, or remove `body`", self.method.word());
            return Err(Invalid::new("task.http.body", message));
        }
        match &self.body {
            None => Ok(()),
            Some(Body::Text(text) | Body::Json(text)) if text.len() > HTTP_BODY_BYTES_MAX => {
                Err(Invalid::new("task.http.body", format!("at most {HTTP_BODY_BYTES_MAX} bytes")))
            }
            Some(Body::Text(text)) => template("task.http.body", text, scope).map(|_| ()),
            Some(Body::Json(text)) => check_json("task.http.body", text, scope).map(|_| ()),
        }
    }

    fn check_expect(&self) -> Result<(), Invalid> {
        let status = &self.expect.status;
        if status.is_empty()
            || status.len() > HTTP_STATUS_RANGES_MAX
            || !status.iter().all(StatusRange::is_valid)
        {
            let message =
                format!("1 to {HTTP_STATUS_RANGES_MAX} codes from 100 to 599, such as 200, 2xx or 200-204");
            return Err(Invalid::new("task.http.expect.status", message));
        }
        if self.expect.body.as_ref().is_some_and(|part| part.is_empty() || part.len() > HTTP_BODY_BYTES_MAX) {
            return Err(Invalid::new("task.http.expect.body", format!("1 to {HTTP_BODY_BYTES_MAX} bytes")));
        }
        self.condition().map(|_| ())
    }

    fn check_accept(&self) -> Result<(), Invalid> {
        let Some(accept) = &self.accept else { return Ok(()) };
        if !matches!(self.method, Method::Post | Method::Put | Method::Patch) {
            let message =
                "with `accept`, GET polls and DELETE cancels; start the work with POST, PUT or PATCH";
            return Err(Invalid::new("task.http.method", message));
        }
        accept.check(&self.url)
    }

    pub fn condition(&self) -> Result<Option<Condition>, Invalid> {
        parse_condition("task.http.expect.condition", self.expect.condition.as_deref())
    }

    /// The request with every expression evaluated.
    pub fn render(&self, values: &Values) -> Result<Request, Invalid> {
        let url = self.render_url(values)?;
        let headers = render_headers("task.http.headers", &self.headers, values)?;
        let body = match &self.body {
            None => None,
            Some(Body::Text(text)) => {
                let rendered = template("task.http.body", text, &Scope::CHECKED_TASK)?.render(values);
                Some(rendered.map_err(|error| Invalid::new("task.http.body", error.in_text(text)))?)
            }
            Some(Body::Json(text)) => Some(render_json("task.http.body", text, values)?.to_string()),
        };
        if body.as_ref().is_some_and(|body| body.len() > HTTP_BODY_BYTES_MAX) {
            return Err(Invalid::new(
                "task.http.body",
                format!("gives more than {HTTP_BODY_BYTES_MAX} bytes"),
            ));
        }
        Ok(Request { url, headers, body })
    }

    fn render_url(&self, values: &Values) -> Result<String, Invalid> {
        let template: Template = template("task.http.url", &self.url, &Scope::CHECKED_TASK)?;
        if template.is_literal() {
            return Ok(self.url.clone());
        }
        let rendered = template.render_url(values);
        let url = rendered.map_err(|error| Invalid::new("task.http.url", error.in_text(&self.url)))?;
        if url.len() > URL_BYTES_MAX {
            return Err(Invalid::new("task.http.url", format!("gives more than {URL_BYTES_MAX} bytes")));
        }
        // A value of `..` would leave the path that the job gives.
        let path = url.split(['?', '#']).next().unwrap_or_default();
        if path.split('/').any(|segment| segment == "." || segment == "..") {
            return Err(Invalid::new("task.http.url", "gives a path with `.` or `..` in it"));
        }
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_the_same_however_it_is_written() {
        for url in ["https://Example.com/a", "HTTPS://example.com:443/{{ run.id }}?b", "https://example.com"]
        {
            assert_eq!(Http::get(url).origin(), "https://example.com", "{url}");
        }
        assert_eq!(Http::get("http://[::1]:8080/a").origin(), "http://[::1]:8080");
    }
}
