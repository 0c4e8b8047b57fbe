use super::*;
use std::collections::HashSet;

const SRC: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const DST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);

/// Breaks if an id comes back while fragments of the datagram before may still be under way.
#[test]
fn ids_come_back_late() {
    let idents = Idents::new(&mut Random::from_seed(1));
    let mut seen = HashSet::new();
    assert!((0..=u16::MAX).all(|_| seen.insert(idents.next(SRC, DST, IpProto::UDP))));
}

/// Breaks if the ids towards one host reveal traffic to another: among many destinations, two sequences may begin with
/// the same id only as often as by chance.
#[test]
fn destinations_have_their_own_ids() {
    let idents = Idents::new(&mut Random::from_seed(1));
    let first = |n: u32| idents.next(SRC, Ipv4Addr::from(0x0a00_0000 + n), IpProto::UDP);
    let starts: HashSet<u16> = (0..1000).map(first).collect();
    assert!(starts.len() > 970, "{} different starts", starts.len());
}

/// Breaks if a seed does not replay a run.
#[test]
fn a_seed_replays() {
    let ids = |seed| {
        let idents = Idents::new(&mut Random::from_seed(seed));
        [0; 8].map(|_| idents.next(SRC, DST, IpProto::ICMP))
    };
    assert_eq!(ids(5), ids(5));
    assert_ne!(ids(5), ids(6));
}
