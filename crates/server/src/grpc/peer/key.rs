//! The key of the cluster: the first node that starts makes it, and all others find it in the store.

use std::fmt;

use punctual_store::{Error, Store};
use subtle::ConstantTimeEq;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};
use tracing::warn;

/// What the cluster agrees on it as.
const NAME: &str = "peer-key";
/// Random bytes that a node offers.
pub const OFFER_BYTES: usize = 32;
const HEADER: &str = "authorization";
const SCHEME: &str = "Bearer ";

#[derive(Clone)]
pub struct Key(MetadataValue<Ascii>);

impl Key {
    /// The key that the cluster has; if it has none, the random bytes offered become it.
    pub async fn agree(store: &dyn Store, offer: &[u8; OFFER_BYTES]) -> Result<Key, Error> {
        Ok(Key::of(&store.agree(NAME, offer).await?))
    }

    pub(super) fn of(bytes: &[u8]) -> Key {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut value =
            MetadataValue::try_from(format!("{SCHEME}{hex}")).expect("hexadecimal digits are plain ASCII");
        value.set_sensitive(true);
        Key(value)
    }

    /// As a worker shows it.
    pub fn as_token(&self) -> String {
        let text = self.0.to_str().unwrap_or_default();
        text.strip_prefix(SCHEME).unwrap_or_default().to_owned()
    }

    /// Whether somebody shows this key.
    pub fn is(&self, shown: &str) -> bool {
        let shown = MetadataValue::try_from(format!("{SCHEME}{shown}"));
        shown.is_ok_and(|shown| *self == Key(shown))
    }

    pub(super) fn put_on<T>(&self, request: &mut Request<T>) {
        request.metadata_mut().insert(HEADER, self.0.clone());
    }
}

/// In the same time for every two of a length, so that nobody can guess one byte after the other.
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

/// Lets in whoever bears the key.
impl Interceptor for Key {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        if request.metadata().get(HEADER).is_some_and(|shown| *self == Key(shown.clone())) {
            return Ok(request);
        }
        warn!("somebody without the key of this cluster asked as a peer, and was refused");
        Err(Status::unauthenticated("the key of this cluster is needed: only its own nodes may ask"))
    }
}
