//! Domains to search in, in the form of DHCP and router advertisements.
//!
//! Locks: none.
//! Sources: RFC 1035 section 3.1 (names), RFC 3397, RFC 3646, RFC 8106.

/// The names one after the other, each in the form of DNS.
pub(super) fn encode(names: &[String]) -> Vec<u8> {
    names.iter().flat_map(|name| labels(name)).collect()
}

/// A domain's name in the form of DNS: each label behind its length, and an empty one.
fn labels(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in labels {
        // A label of more than 63 bytes has no such form; the name ends before it.
        let Some(len) = u8::try_from(label.len()).ok().filter(|len| *len < 64) else {
            break;
        };
        bytes.push(len);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}
