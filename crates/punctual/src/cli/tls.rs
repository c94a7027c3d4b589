//! Explains TLS errors in plain words.

/// The command that makes a server certificate in one step: not a CA, and with the server's names.
pub(crate) const OPENSSL: &str = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 \
    -keyout key.pem -out cert.pem -subj /CN=localhost -addext basicConstraints=critical,CA:FALSE \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1";

pub(crate) const AUTHORITY_AS_SERVER: &str =
    "its certificate is that of an authority (CA:TRUE), which cannot be the certificate of a server";

/// A plain explanation of an error of the TLS library. `None` means that there is none.
pub(crate) fn explain(cause: &str) -> Option<String> {
    cause.contains("CaUsedAsEndEntity").then(|| AUTHORITY_AS_SERVER.to_owned())
}
