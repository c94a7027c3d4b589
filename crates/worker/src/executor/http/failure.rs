//! Error texts for failed calls, written for the job's author.

use std::error::Error;
use std::io;

use crate::egress::Refused;

pub(super) fn explain(error: &reqwest::Error, place: &str, is_secure: bool) -> String {
    for cause in causes(error) {
        if let Some(refused) = cause.downcast_ref::<Refused>() {
            return refused.to_string();
        }
    }
    let refused = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>()).find(|cause| {
        matches!(
            cause.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::HostUnreachable
        )
    });
    let why = innermost(error);
    match refused.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => format!("{place} refused the connection"),
        Some(_) => format!("{place} cannot be reached: {why}"),
        None if error.is_timeout() => format!("{place} did not answer the connection in time"),
        None if error.is_connect() && is_secure => format!("no TLS with {place}: {why}"),
        None if error.is_connect() => format!("cannot connect to {place}: {why}"),
        None if error.is_body() || error.is_decode() => format!("the response of {place} broke off: {why}"),
        None => format!("the call of {place} failed: {why}"),
    }
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
