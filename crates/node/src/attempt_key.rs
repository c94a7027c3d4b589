//! The keys of attempts and of pings. The bearer of a key may report for one attempt, or for the job that is the ping, and
//! may do nothing else.
//!
//! A key names the run and the token of its attempt, or the job and the number of its key. It has a MAC of both under a
//! secret that the nodes of a store share. So every node can check it, and nothing is stored for it.

use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use punctual_core::attempt::Assignment;
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::task::Task;
use punctual_store::{Error, Tokens};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// The secret's name in the store.
const NAME: &str = "attempt-key";
/// Prefixes by which people and leak scanners recognise a key.
const PREFIX: &str = "pck_";
const PREFIX_OF_PING: &str = "pcp_";
/// It makes the MAC of a ping differ from that of an attempt with the same numbers.
const OF_PING: &[u8] = b"ping";
/// The length of the random bytes that a node offers.
pub const OFFER_BYTES: usize = 32;

#[derive(Clone)]
pub struct AttemptKeys(Hmac<Sha256>);

impl AttemptKeys {
    /// The keys of the nodes that share a store. If there is no secret yet, the offered random bytes become it.
    pub async fn agree(store: &dyn Tokens, offer: &[u8; OFFER_BYTES]) -> Result<AttemptKeys, Error> {
        Ok(AttemptKeys::of(&store.agree(NAME, offer).await?))
    }

    pub fn of(secret: &[u8]) -> AttemptKeys {
        AttemptKeys(Hmac::new_from_slice(secret).expect("a secret of HMAC may have any length"))
    }

    pub fn key(&self, run: RunId, token: Token) -> Arc<str> {
        let mac = self.0.clone().chain_update(run.0.to_be_bytes()).chain_update(token.0.to_be_bytes());
        with_mac(format!("{PREFIX}{run}_{token}_"), mac)
    }

    /// The key of a ping with this number.
    pub fn ping_key(&self, job: JobId, number: u32) -> Arc<str> {
        let mac = self.0.clone().chain_update(OF_PING);
        let mac = mac.chain_update(job.0.to_be_bytes()).chain_update(number.to_be_bytes());
        with_mac(format!("{PREFIX_OF_PING}{job}_{number}_"), mac)
    }

    /// The attempt whose key this is. `None` means that it is no key of this store.
    pub fn attempt(&self, shown: &str) -> Option<(RunId, Token)> {
        let mut parts = shown.strip_prefix(PREFIX)?.split('_');
        let (run, token) = (parts.next()?.parse().ok()?, Token(parts.next()?.parse().ok()?));
        is_equal(&self.key(run, token), shown).then_some((run, token))
    }

    /// The job and the number of a key of a ping. `None` means that it is no key of this store.
    pub fn ping(&self, shown: &str) -> Option<(JobId, u32)> {
        let mut parts = shown.strip_prefix(PREFIX_OF_PING)?.split('_');
        let (job, number) = (JobId(parts.next()?.parse().ok()?), parts.next()?.parse().ok()?);
        is_equal(&self.ping_key(job, number), shown).then_some((job, number))
    }

    /// Gives an attempt its key, if its task passes the key on to a program or a service.
    pub(crate) fn give(&self, assignment: &mut Assignment) {
        let passes_on = match &assignment.definition.task {
            Task::Shell(_) | Task::Process(_) => true,
            Task::Http(_) | Task::Grpc(_) => assignment.definition.is_accepted_elsewhere(),
            Task::Noop
            | Task::Function(_)
            | Task::Queue(_)
            | Task::Workflow(_)
            | Task::Ping(_)
            | Task::Job(_) => false,
        };
        if passes_on {
            assignment.attempt_key = Some(self.key(assignment.run, assignment.token));
        }
    }
}

fn with_mac(mut key: String, mac: Hmac<Sha256>) -> Arc<str> {
    for byte in mac.finalize().into_bytes() {
        // Writing into a string does not fail.
        let _ = write!(key, "{byte:02x}");
    }
    key.into()
}

/// Compares in constant time, so that timing does not reveal the key byte by byte.
fn is_equal(key: &str, shown: &str) -> bool {
    key.as_bytes().ct_eq(shown.as_bytes()).into()
}

impl fmt::Debug for AttemptKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptKeys(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: RunId = RunId(7301);
    const TOKEN: Token = Token(4_294_967_297);

    #[test]
    fn a_key_names_its_attempt_to_every_node_of_the_store() {
        let key = AttemptKeys::of(&[7; OFFER_BYTES]).key(RUN, TOKEN);
        assert_eq!(key.len(), "pck_7301_4294967297_".len() + 64);
        assert_eq!(AttemptKeys::of(&[7; OFFER_BYTES]).attempt(&key), Some((RUN, TOKEN)));
        assert_eq!(AttemptKeys::of(&[8; OFFER_BYTES]).attempt(&key), None);
    }

    #[test]
    fn the_key_of_a_ping_names_its_job_and_number() {
        let keys = AttemptKeys::of(&[7; OFFER_BYTES]);
        let key = keys.ping_key(JobId(7301), 2);
        assert_eq!(keys.ping(&key), Some((JobId(7301), 2)));
        assert_eq!(keys.ping(&key.replacen("_2_", "_3_", 1)), None);
        assert_eq!(keys.ping(&key.replacen("7301", "7302", 1)), None);
        assert_eq!(AttemptKeys::of(&[8; OFFER_BYTES]).ping(&key), None);
        assert_eq!(keys.attempt(&key.replacen("pcp_", "pck_", 1)), None, "it opens nothing else");
    }

    #[test]
    fn a_key_that_was_changed_is_refused() {
        let keys = AttemptKeys::of(&[7; OFFER_BYTES]);
        let key = keys.key(RUN, TOKEN);
        for (from, to) in [("7301", "7302"), ("4294967297", "4294967298"), ("pck_", "pct_"), ("_", "__")] {
            assert_eq!(keys.attempt(&key.replacen(from, to, 1)), None, "{from} {to}");
        }
        for shown in ["", "pck_", "pck_7301_4294967297_", &format!("{key}0"), &key[..key.len() - 1]] {
            assert_eq!(keys.attempt(shown), None, "{shown}");
        }
    }
}
