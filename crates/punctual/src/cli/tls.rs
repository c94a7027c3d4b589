//! What is wrong with a certificate, in words for people.

/// A certificate for a server that `openssl` makes in one step: not that of an authority, and with the names it is reached by.
pub(crate) const OPENSSL: &str = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
    -keyout key.pem -out cert.pem -subj /CN=localhost -addext basicConstraints=critical,CA:FALSE \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1";

pub(crate) const AUTHORITY_AS_SERVER: &str =
    "its certificate is that of an authority (CA:TRUE), which cannot be the certificate of a server";

/// A cause as the TLS library names it, if there are plainer words for it.
pub(crate) fn explain(cause: &str) -> Option<String> {
    cause.contains("CaUsedAsEndEntity").then(|| AUTHORITY_AS_SERVER.to_owned())
}
