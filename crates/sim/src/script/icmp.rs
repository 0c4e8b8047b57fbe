//! The names of ICMP messages in scripts (RFC 792, RFC 1122 section 3.2.2, RFC 1812 section 5.2.7).

const UNREACHABLE: u8 = 3;
const TIME_EXCEEDED: u8 = 11;

const PARAMETER_PROBLEM: u8 = 12;

const KINDS: [(&str, u8); 5] = [
    ("unreachable", UNREACHABLE),
    ("source_quench", 4),
    ("redirect", 5),
    ("time_exceeded", TIME_EXCEEDED),
    ("parameter_problem", PARAMETER_PROBLEM),
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

/// Names of FreeBSD's dialect, and of ICMPv6, for an error and its code. Those of ICMPv6 stand for the error of ICMP
/// that [`IpFamily`](crate::family::IpFamily) turns into them (RFC 7915 section 5.2).
const ALIASES: [(&str, &str, (u8, u8)); 12] = [
    (
        "time_exceeded",
        "ttl_exceeded_in_transit",
        (TIME_EXCEEDED, 0),
    ),
    ("time_exceeded", "frag_reass_exceeded", (TIME_EXCEEDED, 1)),
    ("parameter_problem", "code_0", (PARAMETER_PROBLEM, 0)),
    ("parameter_problem", "code_1", (PARAMETER_PROBLEM, 1)),
    ("parameter_problem", "code_2", (PARAMETER_PROBLEM, 2)),
    ("unreachable", "no_route", (UNREACHABLE, 0)),
    ("unreachable", "admin_prohibited", (UNREACHABLE, 13)),
    ("unreachable", "address_unreachable", (UNREACHABLE, 1)),
    ("time_exceeded", "exceeded_hop_limit", (TIME_EXCEEDED, 0)),
    (
        "time_exceeded",
        "exceeded_frag_reass_time",
        (TIME_EXCEEDED, 1),
    ),
    ("parameter_problem", "unknown_next_header", (UNREACHABLE, 2)),
    ("packet_too_big", "", (UNREACHABLE, 4)),
];

fn codes(kind: u8) -> &'static [&'static str] {
    match kind {
        UNREACHABLE => &UNREACHABLE_CODES,
        TIME_EXCEEDED => &TIME_EXCEEDED_CODES,
        _ => &[],
    }
}

/// Type and code of a message by their names; the code's is "" if the script leaves it out.
pub(super) fn named(kind: &str, code: &str) -> Result<(u8, u8), String> {
    let alias = ALIASES.iter().find(|(k, c, _)| (*k, *c) == (kind, code));
    if let Some((.., number)) = alias {
        return Ok(*number);
    }
    let Some((_, number)) = KINDS.iter().find(|(known, _)| *known == kind) else {
        return Err(format!("{kind}: no such ICMP message"));
    };
    if code.is_empty() {
        return Ok((*number, 0));
    }
    let place = codes(*number).iter().position(|known| *known == code);
    place
        .map(|place| (*number, place as u8))
        .ok_or_else(|| format!("{code}: no such code of ICMP {kind}"))
}

/// Type and code as a script writes them.
pub(super) fn name((kind, code): (u8, u8)) -> String {
    let found = KINDS.iter().find(|(_, k)| *k == kind);
    let kind_name = found.map_or_else(|| format!("type {kind}"), |(name, _)| (*name).to_owned());
    let found = codes(kind).get(usize::from(code));
    let code_name = found.map_or_else(|| code.to_string(), |name| (*name).to_owned());
    format!("icmp {kind_name} {code_name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_dialects_name_the_same_errors() {
        // Breaks when a script for FreeBSD, or for IPv6, can't name an error, or its name means another one.
        let same = |a: (&str, &str), b: (&str, &str)| assert_eq!(named(a.0, a.1), named(b.0, b.1));
        same(
            ("time_exceeded", "ttl_exceeded"),
            ("time_exceeded", "ttl_exceeded_in_transit"),
        );
        same(
            ("time_exceeded", "ttl_exceeded"),
            ("time_exceeded", "exceeded_hop_limit"),
        );
        same(
            ("unreachable", "protocol_unreachable"),
            ("parameter_problem", "unknown_next_header"),
        );
        same(("unreachable", "frag_needed"), ("packet_too_big", ""));
        same(
            ("unreachable", "packet_filtered"),
            ("unreachable", "admin_prohibited"),
        );
        same(("parameter_problem", ""), ("parameter_problem", "code_0"));
        assert_eq!(named("redirect", ""), Ok((5, 0)));
        assert!(named("unreachable", "ttl_exceeded").is_err());
        assert!(named("echo", "").is_err());
    }
}
