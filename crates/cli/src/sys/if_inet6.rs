//! The IPv6 addresses of the host's interfaces.
//!
//! Locks: none.
//! Sources: the kernel's net/ipv6/addrconf.c (`if6_seq_show`).

use std::fs;
use std::net::Ipv6Addr;

/// Flags of an address that is not to be used for new connections: it failed or still awaits duplicate address
/// detection, or is deprecated (linux/if_addr.h).
const NOT_FOR_USE: u32 = libc::IFA_F_DADFAILED | libc::IFA_F_TENTATIVE | libc::IFA_F_DEPRECATED;
/// The scope of global addresses, as the table has it.
const SCOPE_GLOBAL: u32 = 0;

/// The first global address of an interface that new connections may come from.
pub(crate) fn global_addr(interface: &str) -> Option<Ipv6Addr> {
    let table = fs::read_to_string("/proc/net/if_inet6").ok()?;
    first_of(&table, interface)
}

/// A row: address, index, length of the prefix, scope, flags, all in hexadecimal; the interface's name.
fn first_of(table: &str, interface: &str) -> Option<Ipv6Addr> {
    let number = |word: &str| u32::from_str_radix(word, 16).ok();
    let usable = |line: &str| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [addr, _, _, scope, flags, name] = words[..] else {
            return None;
        };
        let good = number(scope)? == SCOPE_GLOBAL && number(flags)? & NOT_FOR_USE == 0;
        let addr = u128::from_str_radix(addr, 16).ok()?;
        (good && name == interface).then(|| Ipv6Addr::from_bits(addr))
    };
    table.lines().find_map(usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_good_for_connections_is_found() {
        // Breaks when connections come from a link-local, deprecated or tentative address, or from another interface's.
        let table = "\
            00000000000000000000000000000001 01 80 10 80       lo\n\
            fe800000000000000000000000000001 02 40 20 80     eth0\n\
            20010db8000000000000000000000005 02 40 00 20     eth0\n\
            20010db8000000000000000000000006 02 40 00 40     eth0\n\
            20010db8000000000000000000000009 03 40 00 80     eth1\n\
            20010db8000000000000000000000007 02 40 00 80     eth0\n";
        assert_eq!(first_of(table, "eth0"), "2001:db8::7".parse().ok());
        assert_eq!(first_of(table, "lo"), None);
        assert_eq!(first_of("nonsense\n", "eth0"), None);
    }
}
