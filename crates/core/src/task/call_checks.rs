//! Checks of the fields that HTTP and gRPC tasks have in common, besides the address.

use std::time::Duration;

use crate::invalid::Invalid;
use crate::limits::DURATION_MAX;
use crate::template::Condition;

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

pub(super) fn parse_condition(field: &'static str, text: Option<&str>) -> Result<Option<Condition>, Invalid> {
    let parse = |text| Condition::parse(text).map_err(|error| Invalid::new(field, error.in_text(text)));
    text.map(parse).transpose()
}
