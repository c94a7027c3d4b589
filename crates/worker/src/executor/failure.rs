//! Error texts for failed calls, written for the job's author.

use std::error::Error;
use std::io;

use crate::egress::Refused;

pub(super) fn explain(error: &reqwest::Error, place: &str, is_secure: bool) -> String {
    let why = innermost(error);
    match unreachable(error, place) {
        Some(said) => said,
        None if error.is_timeout() => too_late(place),
        None if error.is_connect() => no_connection(place, is_secure, &why),
        None if error.is_body() || error.is_decode() => format!("the response of {place} broke off: {why}"),
        None => format!("the call of {place} failed: {why}"),
    }
}

/// For a connection that was not opened.
pub(super) fn explain_connect(error: &(dyn Error + 'static), place: &str, is_secure: bool) -> String {
    let is_late = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
    };
    match unreachable(error, place) {
        Some(said) => said,
        None if causes(error).any(is_late) => too_late(place),
        None => no_connection(place, is_secure, &innermost(error)),
    }
}

fn too_late(place: &str) -> String {
    format!("{place} did not answer the connection in time")
}

fn no_connection(place: &str, is_secure: bool, why: &str) -> String {
    if is_secure {
        format!("no TLS with {place}: {why}")
    } else {
        format!("cannot connect to {place}: {why}")
    }
}

/// Why no connection was possible, if a rule or the network says so.
pub(super) fn unreachable(error: &(dyn Error + 'static), place: &str) -> Option<String> {
    if let Some(refused) = causes(error).find_map(|cause| cause.downcast_ref::<Refused>()) {
        return Some(refused.to_string());
    }
    causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).find_map(|cause| match cause.kind() {
        io::ErrorKind::ConnectionRefused => Some(format!("{place} refused the connection")),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            Some(format!("{place} cannot be reached: {}", innermost(error)))
        }
        _ => None,
    })
}

/// The innermost cause: the errors around it only say that something failed.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map_or_else(String::new, ToString::to_string)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| cause_of(*error))
}

fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    // An I/O error hides its inner error from `source`.
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
