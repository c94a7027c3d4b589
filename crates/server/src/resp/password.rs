//! The password of this endpoint, for clients that do not support tokens.

use std::net::IpAddr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::auth::failures::{Failures, Verdict};

#[derive(Debug)]
pub(super) struct Password {
    hash: [u8; 32],
    failures: Failures,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    Right,
    Wrong,
    /// Too many wrong passwords came from this address; it has to wait.
    TooMany,
}

impl Password {
    pub(super) fn new(text: &str) -> Password {
        Password { hash: Sha256::digest(text.as_bytes()).into(), failures: Failures::default() }
    }

    /// Compares in constant time; each address has few tries a minute.
    pub(super) fn check(&self, text: &[u8], from: IpAddr) -> Checked {
        let now = Instant::now();
        let hash: [u8; 32] = Sha256::digest(text).into();
        if bool::from(self.hash.ct_eq(&hash)) {
            return Checked::Right;
        }
        match self.failures.count(from, now) {
            Verdict::Wrong => debug!(%from, "a wrong password"),
            Verdict::LastOfMany => warn!(%from, "many wrong passwords: further ones have to wait"),
            Verdict::TooMany(_) => return Checked::TooMany,
        }
        Checked::Wrong
    }
}
