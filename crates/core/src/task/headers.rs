//! Headers of a request. Their values are templates.

use std::collections::{BTreeMap, BTreeSet};

use super::json::short;
use super::process::{render, template};
use crate::invalid::Invalid;
use crate::limits::{HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX};
use crate::template::{Scope, Values};

/// Headers that belong to the connection. Those with the prefix `OURS` identify Punctual.
const REFUSED: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const OURS: &str = "punctual-";

/// Refuses headers that cannot be sent or that jobs may not set. `is_taken` names, in small letters, those that this
/// kind of task sets itself.
pub(super) fn check_headers(
    root: &'static str,
    headers: &BTreeMap<String, String>,
    is_taken: impl Fn(&str) -> bool,
    scope: &Scope<'_>,
) -> Result<(), Invalid> {
    if headers.len() > HTTP_HEADERS_MAX {
        return Err(Invalid::new(root, format!("at most {HTTP_HEADERS_MAX} entries")));
    }
    let mut seen = BTreeSet::new();
    for (name, value) in headers {
        let field = format!("{root}.{name}");
        let lower = name.to_ascii_lowercase();
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || name.len() > 128 || !name.bytes().all(is_token) {
            return Err(Invalid::new(root, format!("`{}` is no name of a header", short(name))));
        }
        if REFUSED.contains(&lower.as_str()) || lower.starts_with(OURS) || is_taken(&lower) {
            return Err(Invalid::new(field, "is not for jobs to set"));
        }
        if !seen.insert(lower) {
            return Err(Invalid::new(field, "is given twice, in capitals and small letters"));
        }
        if template(&field, value, scope)?.is_literal() {
            check_value(&field, value)?;
        }
    }
    Ok(())
}

/// The headers with every expression evaluated.
pub(super) fn render_headers(
    root: &str,
    headers: &BTreeMap<String, String>,
    values: &Values,
) -> Result<BTreeMap<String, String>, Invalid> {
    let headers = headers.iter().map(|(name, value)| {
        let field = format!("{root}.{name}");
        let value = render(&field, value, values)?;
        check_value(&field, &value)?;
        Ok((name.clone(), value))
    });
    headers.collect()
}

fn check_value(field: &str, value: &str) -> Result<(), Invalid> {
    if value.len() > HTTP_HEADER_BYTES_MAX {
        return Err(Invalid::new(field.to_owned(), format!("at most {HTTP_HEADER_BYTES_MAX} bytes")));
    }
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Invalid::new(field.to_owned(), "a header is one line without control characters"));
    }
    Ok(())
}
