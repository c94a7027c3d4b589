//! The key of the cluster: the first node to start makes it, the others read it from the store.

use std::fmt;

use punctual_store::{Error, Tokens};
use subtle::ConstantTimeEq;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};
use tracing::warn;

/// The key's name in the store.
const NAME: &str = "peer-key";
/// The length of the random bytes that a node offers.
pub const OFFER_BYTES: usize = 32;
const HEADER: &str = "authorization";
const SCHEME: &str = "Bearer ";

#[derive(Clone)]
pub struct Key(MetadataValue<Ascii>);

impl Key {
    /// The key of the cluster. If there is none yet, the offered random bytes become the key.
    pub async fn agree(store: &dyn Tokens, offer: &[u8; OFFER_BYTES]) -> Result<Key, Error> {
        Ok(Key::of(&store.agree(NAME, offer).await?))
    }

    pub(super) fn of(bytes: &[u8]) -> Key {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut value =
            MetadataValue::try_from(format!("{SCHEME}{hex}")).expect("hexadecimal digits are plain ASCII");
        value.set_sensitive(true);
        Key(value)
    }

    /// The key as a worker's token.
    pub fn as_token(&self) -> String {
        let text = self.0.to_str().unwrap_or_default();
        text.strip_prefix(SCHEME).unwrap_or_default().to_owned()
    }

    /// Whether `shown` is this key.
    pub fn is(&self, shown: &str) -> bool {
        let shown = MetadataValue::try_from(format!("{SCHEME}{shown}"));
        shown.is_ok_and(|shown| *self == Key(shown))
    }

    pub(super) fn put_on<T>(&self, request: &mut Request<T>) {
        request.metadata_mut().insert(HEADER, self.0.clone());
    }
}

/// Compares in constant time, so that timing does not reveal the key byte by byte.
impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// Accepts requests that carry the key.
impl Interceptor for Key {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        if request.metadata().get(HEADER).is_some_and(|shown| *self == Key(shown.clone())) {
            return Ok(request);
        }
        warn!("refused a peer request without the key of this cluster");
        Err(Status::unauthenticated(
            "the request lacks the key of this cluster; only its own nodes may send it",
        ))
    }
}
