//! The gate: decides for every endpoint whether a caller has a right.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Extensions, HeaderMap, header};
use punctual_core::Timestamp;
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::time::Clock;
use punctual_node::AttemptKeys;
use punctual_store::Tokens;
use punctual_store::token::{Hash, Record, Role};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::failures::{Failures, Verdict};
use super::known::{Known, find};
use super::secret::hash;
use crate::routes::Right;

#[derive(Debug)]
pub struct Gate(Kind);

#[derive(Debug)]
enum Kind {
    /// Every caller may do everything: `dev`, which listens on this machine only.
    Open,
    Guarded(Box<Guarded>),
}

#[derive(Debug)]
struct Guarded {
    known: Known,
    failures: Failures,
    clock: Arc<dyn Clock>,
    /// Whether a worker needs a client certificate as well as a token.
    certified_workers: bool,
}

/// Where a request comes from, as seen on the connection. Attached to each request as an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub address: IpAddr,
    /// Whether the client showed a certificate signed by the authority for workers.
    pub certified: bool,
}

/// Who sends the request: its token and its connection.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    pub bearer: Option<&'a str>,
    pub peer: Option<Peer>,
}

/// The attempt whose key a request shows. Attached to the request as an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttemptOf {
    pub(crate) run: RunId,
    pub(crate) token: Token,
}

/// The ping whose key a request shows. Attached to the request as an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PingOf {
    pub(crate) job: JobId,
    /// The number of the key.
    pub(crate) number: u32,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("a token is needed: send `Authorization: Bearer TOKEN`")]
    NoToken,
    #[error("the token is unknown or was removed: ask an administrator for a new one")]
    Unknown,
    #[error("the token has expired: ask an administrator for a new one")]
    Expired,
    #[error("too many wrong tokens came from this address: try again later")]
    TooMany { wait: Duration },
    #[error("a token with the role `{}` may not do this: use one with the role `{}`", .has.as_str(), .takes.as_str())]
    Forbidden { has: Role, takes: Role },
    #[error("this server asks workers for a certificate besides the token: start the worker with one")]
    NoCertificate,
    #[error("this is not the key of this attempt: send PUNCTUAL_ATTEMPT_KEY as the attempt got it")]
    WrongKey,
    #[error("the key of the ping is missing or wrong: `punctual ping NAME --show` prints it")]
    WrongPingKey,
    #[error("the token cannot be checked because the store does not answer: try again")]
    Unavailable,
}

impl<'a> Caller<'a> {
    pub fn of(headers: &'a HeaderMap, extensions: &Extensions) -> Caller<'a> {
        let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = value.and_then(|value| value.split_once(' '));
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        Caller { bearer: bearer.map(|(_, token)| token.trim()), peer: extensions.get::<Peer>().copied() }
    }

    fn address(&self) -> IpAddr {
        self.peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.address)
    }
}

impl Gate {
    /// Accepts every caller.
    pub fn open() -> Gate {
        Gate(Kind::Open)
    }

    /// Accepts callers with a token of this store.
    pub fn guarded(store: Arc<dyn Tokens>, clock: Arc<dyn Clock>, certified_workers: bool) -> Gate {
        let (known, failures) = (Known::new(store), Failures::default());
        Gate(Kind::Guarded(Box::new(Guarded { known, failures, clock, certified_workers })))
    }

    pub fn is_open(&self) -> bool {
        matches!(self.0, Kind::Open)
    }

    /// Checks whether this caller has the right `need`.
    pub async fn check(&self, caller: &Caller<'_>, need: Right) -> Result<(), Refused> {
        let Kind::Guarded(guarded) = &self.0 else { return Ok(()) };
        if need == Right::Anyone {
            return Ok(());
        }
        let has = guarded.role_of(caller).await?;
        let takes = takes(need, has);
        if has != takes {
            return Err(Refused::Forbidden { has, takes });
        }
        let certified = caller.peer.is_some_and(|peer| peer.certified);
        if need == Right::Worker && guarded.certified_workers && !certified {
            return Err(Refused::NoCertificate);
        }
        Ok(())
    }

    /// The attempt whose key the caller shows.
    pub(crate) fn attempt_of(
        &self,
        caller: &Caller<'_>,
        keys: Option<&AttemptKeys>,
        shown: &str,
    ) -> Result<AttemptOf, Refused> {
        if let Some((run, token)) = keys.and_then(|keys| keys.attempt(shown)) {
            return Ok(AttemptOf { run, token });
        }
        Err(self.wrong_key(caller, Refused::WrongKey))
    }

    /// The ping whose key the caller shows.
    pub(crate) fn ping_of(
        &self,
        caller: &Caller<'_>,
        keys: Option<&AttemptKeys>,
        shown: &str,
    ) -> Result<PingOf, Refused> {
        match keys.and_then(|keys| keys.ping(shown)) {
            Some((job, number)) => Ok(PingOf { job, number }),
            None => Err(self.wrong_key(caller, Refused::WrongPingKey)),
        }
    }

    /// Counts a wrong key. Returns `refused`, or that the caller has shown too many.
    fn wrong_key(&self, caller: &Caller<'_>, refused: Refused) -> Refused {
        match &self.0 {
            Kind::Open => refused,
            Kind::Guarded(guarded) => match guarded.wrong(caller.address()) {
                Refused::Unknown => refused,
                other => other,
            },
        }
    }

    /// The name and the role of the caller's token. `None` means that no token is needed.
    pub(crate) async fn who(&self, caller: &Caller<'_>) -> Result<Option<(String, Role)>, Refused> {
        let Kind::Guarded(guarded) = &self.0 else { return Ok(None) };
        guarded.record_of(caller, |record| Some((record.name.clone(), record.role))).await
    }

    /// Checks whether this caller has a valid token, whatever its role.
    pub async fn knows(&self, caller: &Caller<'_>) -> Result<(), Refused> {
        match &self.0 {
            Kind::Open => Ok(()),
            Kind::Guarded(guarded) => guarded.role_of(caller).await.map(drop),
        }
    }

    /// Call after tokens were added or removed here: the next check reads them again.
    pub(crate) fn changed(&self) {
        if let Kind::Guarded(guarded) = &self.0 {
            guarded.known.forget();
        }
    }

    /// When this node last accepted a token. `None` means not since this node started.
    pub(crate) fn last_used(&self, hash: &Hash) -> Option<Timestamp> {
        match &self.0 {
            Kind::Open => None,
            Kind::Guarded(guarded) => guarded.known.last_used(hash),
        }
    }
}

/// Whether a role has a right.
pub(crate) fn has_right(role: Role, right: Right) -> bool {
    takes(right, role) == role
}

/// The role that a right needs; if several roles have it, the caller's own.
fn takes(need: Right, has: Role) -> Role {
    match (need, has) {
        (Right::Worker, _) => Role::Worker,
        (Right::Read, Role::Reader | Role::Worker) => Role::Reader,
        (Right::Anyone | Right::Ping | Right::Token, has) => has,
        (Right::Read | Right::Run | Right::Report | Right::Edit | Right::Admin, _) => Role::Admin,
    }
}

impl Guarded {
    async fn role_of(&self, caller: &Caller<'_>) -> Result<Role, Refused> {
        self.record_of(caller, |record| record.role).await
    }

    async fn record_of<T>(&self, caller: &Caller<'_>, read: impl FnOnce(&Record) -> T) -> Result<T, Refused> {
        let bearer = caller.bearer.ok_or(Refused::NoToken)?;
        let (came, address, hash) = (Instant::now(), caller.address(), hash(bearer));
        let mut entries = self.known.all().await.map_err(|_| Refused::Unavailable)?;
        // Read the store again only for addresses with few wrong tokens, so that guessing costs the store few reads.
        if find(&entries, &hash).is_none() && !self.failures.has_to_wait(address, came) {
            entries = self.known.all_since(came).await.map_err(|_| Refused::Unavailable)?;
        }
        let Some(entry) = find(&entries, &hash) else {
            return Err(self.wrong(address));
        };
        let now = self.clock.now();
        // An expired token was valid once: say so, and do not count it as wrong.
        if entry.record.expires_at.is_some_and(|end| now >= end) {
            return Err(Refused::Expired);
        }
        entry.used_at(now);
        Ok(read(&entry.record))
    }

    fn wrong(&self, address: IpAddr) -> Refused {
        match self.failures.count(address, Instant::now()) {
            Verdict::Wrong => debug!(%address, "a wrong token"),
            Verdict::LastOfMany => warn!(%address, "many wrong tokens: further ones have to wait"),
            Verdict::TooMany(wait) => return Refused::TooMany { wait },
        }
        Refused::Unknown
    }
}

#[cfg(test)]
mod tests;
