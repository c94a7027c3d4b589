//! The address that a task calls.
//!
//! Its scheme, host and port are never a template: a user who starts a job chooses its parameters, and must not choose
//! where its headers and body go.

use super::process::template;
use crate::invalid::Invalid;
use crate::limits::URL_BYTES_MAX;
use crate::template::Scope;

/// Refuses a URL that no task may have; the error names the field.
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

/// The scheme, the host and the port of a URL, in one form for all ways to write them.
pub(super) fn origin(url: &str) -> String {
    let (scheme, authority) = scheme_and_authority(url).unwrap_or_default();
    let authority = authority.to_ascii_lowercase();
    let default = if scheme == "https" { ":443" } else { ":80" };
    format!("{scheme}://{}", authority.strip_suffix(default).unwrap_or(&authority))
}
