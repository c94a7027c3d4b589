//! Decides which addresses an HTTP or gRPC task may call.
//!
//! The author of a job chooses a URL, and the request is sent from inside the network: unchecked, a job could read
//! cloud metadata, another department's service, or our own API. Therefore the address is checked, not the name in the
//! URL: a name is resolved once, its addresses are checked, and the connection goes to one of the checked addresses. A
//! redirect is a new call and is checked again.
//!
//! ```text
//!  URL ──resolve──▶ addresses ──check──▶ connect
//!   ▲                                       │
//!   └───────────── redirect ────────────────┘
//! ```

mod class;
mod rule;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;

use class::Class;
pub use rule::{NotARule, Rule};

/// Maximum number of addresses checked per name; further ones are ignored.
const ADDRESSES_MAX: usize = 32;

/// Resolves names to addresses.
#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The machine's resolver.
#[derive(Debug, Clone, Copy)]
struct System;

#[async_trait]
impl Resolver for System {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// The egress check. By default it allows only public addresses.
#[derive(Debug)]
pub struct Egress {
    allow: Vec<Rule>,
    /// The addresses on which this process listens. No rule allows them: a job that calls the API could do more than
    /// its author may.
    own: RwLock<Vec<SocketAddr>>,
    resolver: Arc<dyn Resolver>,
}

impl Default for Egress {
    fn default() -> Self {
        Egress::new(Vec::new())
    }
}

/// Why an address is not allowed, written for the job's author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{address} is {class}, which no task may call")]
    Never { address: IpAddr, class: &'static str },
    #[error(
        "{address} is {class}, which tasks may not call here; `allow` under [egress] in the settings can open it"
    )]
    NotAllowed { address: IpAddr, class: &'static str },
    #[error("{0} is where Punctual itself listens, which no task may call")]
    Own(SocketAddr),
    #[error("cannot find the host `{host}`: {why}")]
    NoAddress { host: String, why: String },
}

impl Egress {
    /// Allows public addresses, and those that the rules allow.
    pub fn new(allow: Vec<Rule>) -> Self {
        Egress { allow, own: RwLock::default(), resolver: Arc::new(System) }
    }

    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolver>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Adds an address on which this process listens.
    pub fn listens_on(&self, address: SocketAddr) {
        self.own.write().unwrap_or_else(PoisonError::into_inner).push(address);
    }

    /// The allowed addresses of a host, after checking all its addresses.
    pub async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Refused> {
        let no_address = |why: String| Refused::NoAddress { host: host.to_owned(), why };
        let found = match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.resolver.resolve(host).await.map_err(|error| no_address(error.to_string()))?,
        };
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in found.into_iter().take(ADDRESSES_MAX) {
            let address = SocketAddr::new(address, port);
            match self.judge(host, address) {
                Ok(()) => allowed.push(address),
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        match refused {
            _ if !allowed.is_empty() => Ok(allowed),
            Some(reason) => Err(reason),
            None => Err(no_address("it has no address".to_owned())),
        }
    }

    fn judge(&self, host: &str, address: SocketAddr) -> Result<(), Refused> {
        let ip = class::seen_through(address.ip());
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        let is_own = |own: &SocketAddr| {
            let (ours, both_here) = (own.ip(), own.ip().is_loopback() && ip.is_loopback());
            // If we listen on all interfaces, not all our addresses are known: refuse the port on every address.
            own.port() == address.port() && (ours == ip || both_here || ours.is_unspecified())
        };
        if own.iter().any(is_own) {
            return Err(Refused::Own(SocketAddr::new(ip, address.port())));
        }
        let opened = |class| self.allow.iter().any(|rule| rule.opens(host, ip, address.port(), class));
        match Class::of(ip) {
            Class::Public => Ok(()),
            Class::Never(class) => Err(Refused::Never { address: ip, class }),
            class @ (Class::Loopback | Class::Private) if opened(class) => Ok(()),
            Class::Loopback => Err(Refused::NotAllowed { address: ip, class: "this machine itself" }),
            Class::Private => Err(Refused::NotAllowed { address: ip, class: "a private address" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(allow: &[&str], host: &str, address: &str, port: u16, expected: &str) {
        let egress = Egress::new(allow.iter().map(|rule| rule.parse().unwrap()).collect());
        egress.listens_on("127.0.0.1:7400".parse().unwrap());
        let judged = egress.judge(host, SocketAddr::new(address.parse().unwrap(), port));
        let judged = judged.map_or_else(|refused| refused.to_string(), |()| "allowed".to_owned());
        assert!(judged.contains(expected), "{allow:?} {host} {address}:{port}: {judged}");
    }

    #[test]
    fn only_public_addresses_are_called_unless_a_rule_opens_others() {
        let (never, here, open) = ("which no task may call", "in the settings can open it", "allowed");
        let all = ["loopback", "private", "0.0.0.0/0", "::/0", "metadata.internal", "169.254.169.254:80"];
        for public in ["93.184.216.34", "2606:2800:220:1::1", "8.8.8.8", "172.32.0.1", "100.128.0.1"] {
            check(&[], "example.com", public, 443, open);
        }
        for closed in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "fd12::1",
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
            "192.0.2.1",
            "198.18.0.1",
        ] {
            check(&[], "example.com", closed, 80, here);
            check(&["loopback", "private"], "example.com", closed, 80, open);
        }
        for refused in [
            "169.254.169.254",
            "169.254.1.1",
            "fe80::1",
            "fd00:ec2::254",
            "168.63.129.16",
            "100.100.100.200",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "240.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::",
        ] {
            check(&[], "metadata.internal", refused, 80, never);
            check(&all, "metadata.internal", refused, 80, never);
        }
    }

    #[test]
    fn a_rule_opens_what_it_names_and_no_more() {
        let (here, open) = ("in the settings can open it", "allowed");
        check(&["10.0.0.0/8"], "a", "10.200.0.1", 80, open);
        check(&["10.0.0.0/8"], "a", "192.168.0.1", 80, here);
        check(&["10.1.2.3"], "a", "10.1.2.3", 80, open);
        check(&["10.1.2.3"], "a", "10.1.2.4", 80, here);
        check(&["127.0.0.1:8080"], "a", "127.0.0.1", 8080, open);
        check(&["127.0.0.1:8080"], "a", "127.0.0.1", 8081, here);
        check(&["fd00::/8"], "a", "fd12::1", 80, open);
        check(&["wiki.internal:443"], "wiki.internal", "10.0.0.1", 443, open);
        check(&["wiki.internal:443"], "WIKI.internal", "10.0.0.1", 443, open);
        check(&["wiki.internal:443"], "wiki.internal", "10.0.0.1", 80, here);
        check(&["wiki.internal"], "evil.example", "10.0.0.1", 443, here);
        check(&["*.internal"], "a.b.internal", "10.0.0.1", 80, open);
        check(&["*.internal"], "internal", "10.0.0.1", 80, here);
        check(&["private"], "a", "127.0.0.1", 80, here);
    }

    #[test]
    fn where_we_listen_ourselves_is_never_called() {
        let all = ["loopback", "private", "127.0.0.1:7400", "localhost"];
        for address in ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"] {
            check(&all, "localhost", address, 7400, "where Punctual itself listens");
            check(&all, "localhost", address, 7401, "allowed");
        }
        let egress = Egress::new(vec![Rule::Private]);
        egress.listens_on("0.0.0.0:7400".parse().unwrap());
        assert!(egress.judge("a", "10.0.0.5:7400".parse().unwrap()).is_err());
    }
}
