//! The HTTP request of a job, and the response it expects.
//!
//! The scheme, the host and the port cannot be templates: a user who starts a job chooses its parameters, and must not
//! choose where its headers and body go. In the rest of the URL the result of an expression is percent-encoded, so that
//! it stays one part. Whether the address may be called at all is decided by the worker.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::accept::Accept;
use super::headers::{check_headers, render_headers};
use super::json::{check_json, render_json};
use super::process::template;
use crate::invalid::Invalid;
use crate::limits::{DURATION_MAX, HTTP_BODY_BYTES_MAX, HTTP_STATUS_RANGES_MAX, HTTP_TIMEOUT, URL_BYTES_MAX};
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

pub(super) fn parse_condition(field: &'static str, text: Option<&str>) -> Result<Option<Condition>, Invalid> {
    let parse = |text| Condition::parse(text).map_err(|error| Invalid::new(field, error.in_text(text)));
    text.map(parse).transpose()
}

pub(super) fn check_timeout(field: &'static str, timeout: Duration) -> Result<(), Invalid> {
    if timeout.is_zero() || timeout > DURATION_MAX {
        return Err(Invalid::new(field, "longer than nothing, and at most ten years"));
    }
    Ok(())
}

pub(super) fn check_ca(field: &'static str, path: Option<&str>) -> Result<(), Invalid> {
    if path.is_some_and(|path| !path.starts_with('/') || path.contains('\0')) {
        return Err(Invalid::new(field, "the full path of a file on the worker"));
    }
    Ok(())
}

pub(super) fn check_url(field: &'static str, url: &str, scope: &Scope<'_>) -> Result<(), Invalid> {
    let refuse = |message: &str| Err(Invalid::new(field, message));
    // HTTP clients drop line breaks and tabs, and would call another address than the one written here.
    if url.chars().any(char::is_control) {
        return refuse("has a line break or another control character in it; write it on one line");
    }
    template(field, url, scope)?;
    if url.len() > URL_BYTES_MAX {
        return refuse(&format!("at most {URL_BYTES_MAX} bytes"));
    }
    let Some((_, authority)) = scheme_and_authority(url) else {
        return refuse("begins with http:// or https://");
    };
    if authority.contains("{{") {
        return refuse(
            "the host and the port are no template: who starts the job must not choose where it goes",
        );
    }
    if authority.contains('@') {
        return refuse("has a user or a password in it; send the header Authorization instead");
    }
    // In brackets is an IPv6 address, colons included.
    let port = authority.rsplit_once(']').map_or(authority, |(_, port)| port);
    let (host, port) = port.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    if authority.starts_with(':') || (host.is_empty() && !authority.starts_with('[')) {
        return refuse("has no host");
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return refuse("has a port that is no number from 0 to 65535");
    }
    if authority.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return refuse("has a blank in its host");
    }
    Ok(())
}

/// The scheme and the host with its port. `None` means that it is not a URL of HTTP.
pub(super) fn scheme_and_authority(url: &str) -> Option<(&'static str, &str)> {
    let (scheme, rest) = ["http", "https"].into_iter().find_map(|scheme| {
        let (begin, rest) = url.split_once("://")?;
        begin.eq_ignore_ascii_case(scheme).then_some((scheme, rest))
    })?;
    Some((scheme, rest.split(['/', '?', '#', '\\']).next().unwrap_or_default()))
}
