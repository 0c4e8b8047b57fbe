//! Options about names inside: `--add-host`, `--hostname`, `--search`.
//!
//! Locks: none.
//! Sources: hosts(5), resolv.conf(5), gethostname(2) (64 bytes at most).

use std::net::IpAddr;
use std::str::FromStr;

/// Bytes of a host's name at most.
const NAME_MAX: usize = 64;
/// Bytes of a domain's name at most (RFC 1035 2.3.4).
const DOMAIN_MAX: usize = 253;
/// Bytes between two dots of a name at most (RFC 1035 2.3.4).
const LABEL_MAX: usize = 63;
/// Means the gateway, as engines have it.
const HOST_GATEWAY: &str = "host-gateway";

/// One `--add-host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddedHost {
    pub(crate) name: String,
    addr: HostAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostAddr {
    Addr(IpAddr),
    Gateway,
}

impl AddedHost {
    /// Its address, where the gateway is at `gateway`.
    pub(crate) fn addr(&self, gateway: Option<IpAddr>) -> Option<IpAddr> {
        match self.addr {
            HostAddr::Addr(addr) => Some(addr),
            HostAddr::Gateway => gateway,
        }
    }
}

impl FromStr for AddedHost {
    type Err = String;

    /// `NAME:ADDR`, where `host-gateway` is the gateway's address.
    fn from_str(text: &str) -> Result<AddedHost, String> {
        let (name, addr) = text
            .split_once(':')
            .ok_or("it takes a name and an address, as in db:192.0.2.7")?;
        let plain = addr.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
        let addr = match plain.unwrap_or(addr) {
            HOST_GATEWAY => HostAddr::Gateway,
            addr => HostAddr::Addr(
                addr.parse()
                    .map_err(|_| format!("`{addr}` is no address"))?,
            ),
        };
        let name = host_name(name)?;
        Ok(AddedHost { name, addr })
    }
}

/// A host's name.
pub(super) fn host_name(text: &str) -> Result<String, String> {
    named(text, NAME_MAX).and_then(with_labels)
}

/// A domain to search in; `.` for none.
pub(super) fn domain(text: &str) -> Result<String, String> {
    match text {
        "." => Ok(text.to_owned()),
        _ => named(text, DOMAIN_MAX).and_then(with_labels),
    }
}

/// Whether these can be searched together.
pub(super) fn check_domains(domains: &[String]) -> Result<(), String> {
    match domains.len() > 1 && domains.iter().any(|domain| domain == ".") {
        true => Err("--search .: it means no domain, so leave out it or the others".to_owned()),
        false => Ok(()),
    }
}

/// A name that DNS can carry.
fn with_labels(name: String) -> Result<String, String> {
    let mut labels = name.split('.');
    match labels.all(|label| (1..=LABEL_MAX).contains(&label.len())) {
        true => Ok(name),
        false => Err(format!(
            "`{name}` is no name of DNS: 1 to {LABEL_MAX} bytes between its dots"
        )),
    }
}

/// Letters, digits, hyphens, underscores and dots, which neither begin nor end it.
fn named(text: &str, max: usize) -> Result<String, String> {
    let fits = (1..=max).contains(&text.len());
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    let edges = edge(text.bytes().next()) && edge(text.bytes().last());
    match fits && edges && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{text}` is no name: letters, digits, - _ and . , at most {max}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_write_other_lines() {
        // Breaks when a name with a blank or a line break adds something else to /etc/hosts or resolv.conf.
        let gateway = IpAddr::from([10, 0, 2, 2]);
        let shown = |host: &AddedHost| host.addr(Some(gateway)).map(|addr| addr.to_string());
        let added: AddedHost = "db:192.0.2.7".parse().expect("a host");
        assert_eq!(shown(&added).as_deref(), Some("192.0.2.7"));
        let added: AddedHost = "host:host-gateway".parse().expect("a host");
        assert_eq!(shown(&added).as_deref(), Some("10.0.2.2"));
        let added: AddedHost = "six:[2001:db8::1]".parse().expect("a host");
        assert_eq!(shown(&added).as_deref(), Some("2001:db8::1"));
        for wrong in [
            "a b:1.2.3.4",
            "a\n:1.2.3.4",
            "-a:1.2.3.4",
            ":1.2.3.4",
            "a:b",
            "a",
        ] {
            assert!(wrong.parse::<AddedHost>().is_err(), "{wrong:?}");
        }
        assert!(domain(".").is_ok() && domain("a.example").is_ok() && domain("a example").is_err());
        let parts = format!("{}.{}", "x".repeat(32), "y".repeat(31));
        assert!(host_name(&format!("{parts}z")).is_err(), "65 bytes");
        assert!(host_name(&parts).is_ok());
        // A guest of that name could not be asked for.
        assert!(host_name("a..b").is_err() && host_name(&"x".repeat(64)).is_err());
        // DNS has no such labels: DHCP would tell a guest another domain.
        assert!(domain("a..b").is_err() && domain(&"x".repeat(64)).is_err());
    }

    #[test]
    fn no_domain_stands_alone() {
        // Breaks when resolv.conf gets `search . x`, which asks for each name at the root first.
        let domains = |list: &[&str]| list.iter().map(|d| (*d).to_owned()).collect::<Vec<_>>();
        for right in [&[][..], &["."], &["a", "b"]] {
            assert!(check_domains(&domains(right)).is_ok(), "{right:?}");
        }
        for wrong in [&[".", "x"][..], &["x", "."], &[".", "."]] {
            assert!(check_domains(&domains(wrong)).is_err(), "{wrong:?}");
        }
    }
}
