//! The names of ICMP messages in scripts (RFC 792, RFC 1122 section 3.2.2, RFC 1812 section 5.2.7).

const UNREACHABLE: u8 = 3;
const TIME_EXCEEDED: u8 = 11;

const KINDS: [(&str, u8); 4] = [
    ("unreachable", UNREACHABLE),
    ("source_quench", 4),
    ("time_exceeded", TIME_EXCEEDED),
    ("parameter_problem", 12),
];

/// Codes of "unreachable", each at its number.
const UNREACHABLE_CODES: [&str; 16] = [
    "net_unreachable",
    "host_unreachable",
    "protocol_unreachable",
    "port_unreachable",
    "frag_needed",
    "source_route_failed",
    "net_unknown",
    "host_unknown",
    "source_host_isolated",
    "net_prohibited",
    "host_prohibited",
    "net_unreachable_for_tos",
    "host_unreachable_for_tos",
    "packet_filtered",
    "precedence_violation",
    "precedence_cutoff",
];

const TIME_EXCEEDED_CODES: [&str; 2] = ["ttl_exceeded", "reassembly_exceeded"];

/// The number of a type.
pub(super) fn kind(name: &str) -> Option<u8> {
    let found = KINDS.iter().find(|(known, _)| *known == name);
    found.map(|(_, kind)| *kind)
}

fn codes(kind: u8) -> &'static [&'static str] {
    match kind {
        UNREACHABLE => &UNREACHABLE_CODES,
        TIME_EXCEEDED => &TIME_EXCEEDED_CODES,
        _ => &[],
    }
}

/// The number of a code of this type.
pub(super) fn code(kind: u8, name: &str) -> Option<u8> {
    codes(kind)
        .iter()
        .position(|known| *known == name)
        .map(|i| i as u8)
}

/// As a script writes them.
pub(super) fn name((kind, code): (u8, u8)) -> String {
    let found = KINDS.iter().find(|(_, k)| *k == kind);
    let kind_name = found.map_or_else(|| format!("type {kind}"), |(name, _)| (*name).to_owned());
    match codes(kind).get(usize::from(code)) {
        Some(code) => format!("icmp {kind_name} {code}"),
        None => format!("icmp {kind_name} {code}"),
    }
}
