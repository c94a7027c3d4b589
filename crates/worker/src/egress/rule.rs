//! A rule of the settings that allows addresses.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::class::Class;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// This machine.
    Loopback,
    /// Every private address.
    Private,
    /// A network: an address and its prefix length.
    Net {
        address: IpAddr,
        bits: u8,
    },
    Address(SocketAddr),
    /// A host name; with a star, every name with this ending.
    Host {
        name: String,
        port: Option<u16>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no place; write `loopback`, `private`, 10.0.0.0/8, 10.0.0.5:8080, wiki.internal:443 or *.internal"
)]
pub struct NotARule(String);

impl Rule {
    /// Whether the rule allows an address that is not public.
    pub(super) fn opens(&self, host: &str, address: IpAddr, port: u16, class: Class) -> bool {
        match self {
            Rule::Loopback => class == Class::Loopback,
            Rule::Private => class == Class::Private,
            Rule::Net { address: net, bits } => is_in(address, *net, *bits),
            Rule::Address(known) => *known == SocketAddr::new(address, port),
            Rule::Host { name, port: known } => {
                let host = host.to_ascii_lowercase();
                let is_named = match name.strip_prefix('*') {
                    Some(ending) => host.ends_with(ending),
                    None => host == *name,
                };
                is_named && known.is_none_or(|known| known == port)
            }
        }
    }
}

fn is_in(address: IpAddr, net: IpAddr, bits: u8) -> bool {
    let same = |left: u128, right: u128, width: u8| {
        let rest = u32::from(width - bits.min(width));
        left.checked_shr(rest) == right.checked_shr(rest)
    };
    match (address, net) {
        (IpAddr::V4(left), IpAddr::V4(right)) => same(u32::from(left).into(), u32::from(right).into(), 32),
        (IpAddr::V6(left), IpAddr::V6(right)) => same(left.into(), right.into(), 128),
        _ => false,
    }
}

impl FromStr for Rule {
    type Err = NotARule;

    fn from_str(text: &str) -> Result<Self, NotARule> {
        let refuse = || NotARule(text.chars().take(100).collect());
        match text {
            "loopback" => return Ok(Rule::Loopback),
            "private" => return Ok(Rule::Private),
            _ => {}
        }
        if let Some((address, bits)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| refuse())?;
            let bits: u8 = bits.parse().map_err(|_| refuse())?;
            let width = if address.is_ipv4() { 32 } else { 128 };
            return if bits <= width { Ok(Rule::Net { address, bits }) } else { Err(refuse()) };
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Rule::Net { address, bits: if address.is_ipv4() { 32 } else { 128 } });
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Rule::Address(address));
        }
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port.parse::<u16>().map_err(|_| refuse())?)),
            None => (text, None),
        };
        let labels = name.strip_prefix("*.").unwrap_or(name);
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        // A last label of digits only would be an invalid address.
        let is_number =
            labels.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
        if !labels.split('.').all(is_label) || is_number {
            return Err(refuse());
        }
        Ok(Rule::Host { name: name.to_ascii_lowercase(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_place_is_refused() {
        for text in [
            "",
            "*",
            "10.0.0.0/33",
            "10.0.0/8",
            "1.2.3",
            "a b",
            "http://a",
            "a:b",
            "a..b",
            "*.",
            "fd00::/129",
            "300.1.1.1",
            "a/8",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
        assert_eq!(
            "Wiki.Internal:443".parse(),
            Ok(Rule::Host { name: "wiki.internal".to_owned(), port: Some(443) })
        );
        assert_eq!("[::1]:80".parse(), Ok(Rule::Address("[::1]:80".parse().unwrap())));
    }
}
