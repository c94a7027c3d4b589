//! Classifies addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Public,
    Loopback,
    /// In a private network, or in no network.
    Private,
    /// Never allowed, whatever the rules say; with the reason.
    Never(&'static str),
}

const METADATA: &str = "the cloud's metadata";

/// Cloud metadata services, which give credentials to any caller; some have ordinary addresses.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(169, 254, 169, 254), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(100, 100, 100, 200)];
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

impl Class {
    /// For an address from [`seen_through`].
    pub(super) fn of(address: IpAddr) -> Class {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => of_v6(address),
        }
    }
}

/// The IPv4 address embedded in an IPv6 address (mapped, NAT64, 6to4); other addresses are returned unmodified.
pub(super) fn seen_through(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else { return address.to_canonical() };
    let pair = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => pair(high, low),
        [0x2002, high, low, ..] => pair(high, low),
        // Deprecated IPv4-compatible addresses; `::` and `::1` are not such addresses.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => pair(high, low),
        _ => IpAddr::V6(v6),
    }
}

fn of_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        _ if METADATA_V4.contains(&address) => Class::Never(METADATA),
        [0, ..] => Class::Never("no address at all"),
        [127, ..] => Class::Loopback,
        [169, 254, ..] => Class::Never("a link-local address"),
        [224..=239, ..] => Class::Never("a multicast address"),
        [255, 255, 255, 255] => Class::Never("the broadcast address"),
        [240..=255, ..] => Class::Never("a reserved address"),
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => Class::Private,
        // Protocol assignments, documentation and benchmarks: not public.
        [192, 0, 0 | 2, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => Class::Private,
        _ => Class::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Class {
    match address.segments() {
        _ if address == METADATA_V6 => Class::Never(METADATA),
        _ if address.is_unspecified() => Class::Never("no address at all"),
        _ if address.is_loopback() => Class::Loopback,
        [0xfe80..=0xfebf, ..] => Class::Never("a link-local address"),
        [0xff00..=0xffff, ..] => Class::Never("a multicast address"),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] | [0x2001, 0xdb8, ..] => Class::Private,
        _ => Class::Public,
    }
}
