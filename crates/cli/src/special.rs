//! Addresses that mean something other than one host of some network, or a host that hands out secrets.
//!
//! Locks: none.
//! Sources: RFC 6890 (special-purpose addresses), RFC 6052, RFC 8215 and RFC 2765 (translation), RFC 3056 (6to4),
//! RFC 4380 (Teredo), RFC 5214 (ISATAP).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses at which clouds hand out a machine's credentials. Most clouds use 169.254.169.254,
/// which is prohibited as a link-local address.
const METADATA: [IpAddr; 7] = [
    // Alibaba, Azure (its wire server), Oracle (the older address).
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    AZURE,
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    // Amazon, Google, Oracle, Scaleway.
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)),
];

/// The wire server of an Azure machine, which is its name server too.
const AZURE: IpAddr = IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16));

/// The metadata server of most clouds, which is a Google machine's name server too.
const MOST_CLOUDS: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

/// Whether a prohibited address has a name server at port 53 that the host's programs ask.
pub(crate) fn answers_names(ip: IpAddr) -> bool {
    [AZURE, MOST_CLOUDS].contains(&ip)
}

/// Whether an address means something other than one host of some network, or is a link's own.
pub(crate) fn is_special(ip: IpAddr) -> bool {
    let of_family = match ip {
        IpAddr::V4(ip) => is_special4(ip),
        IpAddr::V6(ip) => is_special6(ip),
    };
    of_family || METADATA.contains(&ip)
}

fn is_special4(ip: Ipv4Addr) -> bool {
    let [first, ..] = ip.octets();
    // 0/8 is "this network", 240/4 is reserved and ends with the broadcast.
    first == 0 || first >= 240 || ip.is_loopback() || ip.is_link_local() || ip.is_multicast()
}

fn is_special6(ip: Ipv6Addr) -> bool {
    // With ::/96: the unspecified address, loopback, and embedded IPv4 addresses, which a socket treats as IPv4.
    let is_v4 = ip.to_bits() >> 32 == 0 || ip.to_ipv4_mapped().is_some();
    is_v4 || ip.is_multicast() || is_of_a_link(ip)
}

/// fe80::/10, and fec0::/10 that once meant a site (RFC 3879).
fn is_of_a_link(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 0xfe && second >= 0x80
}

/// The IPv4 hosts that a translator or a relay would make of an IPv6 address: each reading of it.
pub(crate) fn embedded(ip: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
    let bits = ip.to_bits();
    let from = |shift: u32| Ipv4Addr::from_bits((bits >> shift) as u32);
    let begins = |network: Ipv6Addr, len| wire::is_same_prefix(ip, network, len);
    let well_known = begins(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
    // The length of a translator's own prefix in this network is not known: 48, 56, 64 or 96 bits (RFC 6052 section
    // 2.2). The first two have the byte of zeros amid the address. No translator sends to what a wrong length mostly
    // gives: 0/8 or 240/4.
    let local = begins(Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48);
    let six_to_four = begins(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);
    // SIIT's own form of an IPv4 address (RFC 2765 section 2.1), which is not the mapped one.
    let translated = begins(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96);
    let around = |before: u32| {
        let behind = 32 - before;
        let high = (bits >> 64) as u32 & ((1 << before) - 1);
        let low = (bits >> (56 - behind)) as u32 & ((1 << behind) - 1);
        Ipv4Addr::from_bits(high << behind | low)
    };
    // A Teredo host is reached by UDP at its inverted IPv4 address, and by way of its server (RFC 4380 section 4).
    let teredo = begins(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32);
    // A host of any network may use such an address, globally unique or not (RFC 5214 section 6.1).
    let isatap = (bits >> 32) as u32 & 0xfdff_ffff == 0x5efe;
    let certain = [
        (well_known || translated || isatap).then(|| from(0)),
        six_to_four.then(|| from(80)),
        teredo.then(|| Ipv4Addr::from_bits(!(bits as u32))),
        teredo.then(|| from(64)),
    ];
    let possible = local.then(|| [from(0), around(16), around(8), from(24)]);
    let possible = possible.into_iter().flatten();
    let possible = possible.filter(|v4| (1..240).contains(&v4.octets()[0]));
    certain.into_iter().flatten().chain(possible)
}

fn parse(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is no address"))
}

/// The value of `--allow`.
pub(crate) fn allowed(text: &str) -> Result<IpAddr, String> {
    let ip = parse(text)?;
    let is_link_local4 = matches!(ip, IpAddr::V4(ip) if ip.is_link_local());
    match is_link_local4 || METADATA.contains(&ip) {
        true => Ok(ip),
        false if is_special(ip) => Err(format!("{ip} cannot be allowed")),
        false => Err(format!("{ip} is not prohibited")),
    }
}

/// The value of `--dns`.
pub(crate) fn name_server(text: &str) -> Result<IpAddr, String> {
    let ip = parse(text)?;
    match ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST {
        true => Err(format!(
            "{ip} is no host's address: a name server of this host has 127.0.0.1 or ::1"
        )),
        false => Ok(ip),
    }
}

/// An address that a guest, its gateway or another host may have in a guest's network: also a link's own.
pub(crate) fn host_addr(text: &str) -> Result<IpAddr, String> {
    let ip = parse(text)?;
    let is_none = match ip {
        IpAddr::V4(ip) => ip.is_broadcast(),
        // A socket would treat it as IPv4.
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
    };
    match is_none || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() {
        true => Err(format!("no host of the guest's network can have {ip}")),
        false => Ok(ip),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_clothes_hide_an_ipv4_address() {
        // Breaks when a guest reaches the host's 127.0.0.1 or a cloud's metadata by an IPv6 address that leads there.
        for text in [
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:192.0.2.1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
        ] {
            assert!(is_special(text.parse().expect("an address")), "{text}");
        }
        assert!(!is_special("2001:db8::1".parse().expect("an address")));
        for text in [
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::169.254.169.254",
            "64:ff9b:1:a9fe:a9:fe00::",
            "64:ff9b:1:ffa9:fe:a9fe::",
            "64:ff9b:1:ff:a9:fea9:fe00::",
            "::ffff:0:169.254.169.254",
            "2002:a9fe:a9fe::1",
            "2001:0:c000:201:0:ffff:5601:5601",
            "2001:0:a9fe:a9fe:0:ffff:3fff:fdfe",
            "2001:db8::5efe:169.254.169.254",
            "2001:db8::200:5efe:169.254.169.254",
        ] {
            let ip: Ipv6Addr = text.parse().expect("an address");
            let metadata = Ipv4Addr::new(169, 254, 169, 254);
            assert!(embedded(ip).any(|v4| v4 == metadata), "{text}");
        }
        assert_eq!(embedded(Ipv6Addr::LOCALHOST).count(), 0);
        for text in ["64:ff9b:1::192.0.2.1", "64:ff9b:1:fffe::192.0.2.1"] {
            // Of these the other lengths make addresses that are none of a host.
            let ip: Ipv6Addr = text.parse().expect("an address");
            let v4 = Ipv4Addr::new(192, 0, 2, 1);
            assert!(embedded(ip).all(|reading| reading == v4), "{text}");
            assert_eq!(embedded(ip).count(), 1, "{text}");
        }
    }

    #[test]
    fn only_a_prohibited_host_can_be_allowed() {
        // Breaks when --allow opens the host's loopback, or a mistyped address is taken without a word.
        assert!(allowed("169.254.169.254").is_ok() && allowed("fd00:ec2::254").is_ok());
        for wrong in ["127.0.0.1", "::ffff:127.0.0.1", "ff02::1", "192.0.2.1", "x"] {
            assert!(allowed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_server_has_the_address_of_a_host() {
        // Breaks when questions go to 0.0.0.0, which is the host itself, or to a group, which never answers.
        for wrong in [
            "0.0.0.0",
            "::",
            "224.0.0.251",
            "ff02::fb",
            "255.255.255.255",
            "x",
        ] {
            assert!(name_server(wrong).is_err(), "{wrong}");
        }
        for right in ["127.0.0.53", "::1", "192.0.2.1", "2001:db8::53"] {
            assert!(name_server(right).is_ok(), "{right}");
        }
    }

    #[test]
    fn a_host_of_the_guests_network_has_the_address_of_one_host() {
        // Breaks when an address that no packet of the guest can have is taken without a word.
        for wrong in [
            "0.0.0.0",
            "::",
            "127.0.0.9",
            "::1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "::ffff:192.0.2.1",
            "::ffff:127.0.0.1",
            "x",
        ] {
            assert!(host_addr(wrong).is_err(), "{wrong}");
        }
        for right in ["192.0.2.1", "169.254.1.1", "fe80::1", "2001:db8::1"] {
            assert!(host_addr(right).is_ok(), "{right}");
        }
    }
}
