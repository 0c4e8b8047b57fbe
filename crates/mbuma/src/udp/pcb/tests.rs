use super::*;
use crate::inet::ANY;

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const IF1: IfIndex = IfIndex(1);

fn table() -> UdpTable {
    UdpTable::new(&mut Random::from_seed(1))
}

fn bind(table: &UdpTable, local: SocketAddr, any: Option<IfIndex>) -> Option<Arc<UdpPcb>> {
    let pcb = Arc::new(UdpPcb::new(local, any, 1));
    table.insert(&pcb).then_some(pcb)
}

/// The flow of a datagram from B to this address.
fn flow(addr: IpAddr, port: u16) -> Ends {
    Ends::between(SocketAddr::new(addr, port), SocketAddr::new(B, 9)).unwrap()
}

/// Breaks if a datagram does not go to the socket with the most specific addresses.
#[test]
fn the_closest_socket_is_meant() {
    let table = table();
    let a = bind(&table, SocketAddr::new(A, 1), None).unwrap();
    let all = bind(
        &table,
        SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 2),
        None,
    )
    .unwrap();
    let any = bind(&table, ANY, Some(IF1)).unwrap();
    let find = |addr, port, whose| table.lookup(&flow(addr, port), whose);
    let is = |found: Option<Arc<UdpPcb>>, pcb| found.is_some_and(|p| Arc::ptr_eq(&p, pcb));
    assert!(is(find(A, 1, Whose::Ours(IF1)), &a));
    assert!(is(find(B, 2, Whose::Ours(IF1)), &all));
    assert!(is(find(B, 2, Whose::Many), &all));
    assert!(is(find(B, 1, Whose::Ours(IF1)), &any));
    assert!(find(B, 1, Whose::Ours(IfIndex(2))).is_none());
    assert!(
        find(B, 1, Whose::Many).is_none(),
        "what is for many is not for a gateway"
    );
    assert!(
        is(find(B, 2, Whose::Foreign(IF1)), &any),
        "a foreign address is not one of all ours"
    );
    assert!(find(B, 2, Whose::Foreign(IfIndex(2))).is_none());
}

/// Breaks if two sockets may have the same addresses, or the addresses of a closed socket stay in use.
#[test]
fn sockets_on_different_addresses_or_ports_do_not_conflict() {
    let table = table();
    let a = bind(&table, SocketAddr::new(A, 1), None).unwrap();
    assert!(bind(&table, SocketAddr::new(A, 1), None).is_none());
    assert!(
        bind(
            &table,
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 1),
            None
        )
        .is_none()
    );
    assert!(bind(&table, SocketAddr::new(B, 1), None).is_some());
    table.remove(&a);
    assert!(bind(&table, SocketAddr::new(A, 1), None).is_some());
    let any = bind(&table, ANY, Some(IF1)).unwrap();
    assert!(bind(&table, ANY, Some(IF1)).is_none());
    table.remove(&any);
    assert!(bind(&table, ANY, Some(IF1)).is_some());
}

/// Breaks if the last free port is not found, or one is invented when there is none.
#[test]
fn every_free_port_is_found() {
    let table = table();
    let mut random = Random::from_seed(2);
    // RFC 6335 section 6.
    let dynamic = 49_152..=u16::MAX;
    for n in 0..dynamic.len() {
        let port = table.free_port(A, random.next_u32()).unwrap();
        assert!(dynamic.contains(&port));
        let pcb = bind(&table, SocketAddr::new(A, port), None).unwrap();
        // A connected socket has its port too.
        assert!(n % 2 == 0 || table.connect(&pcb, flow(A, port)));
    }
    assert_eq!(table.free_port(A, random.next_u32()), None);
    assert!(table.free_port(B, random.next_u32()).is_some());
    assert!(
        table
            .free_port(Ipv4Addr::UNSPECIFIED.into(), random.next_u32())
            .is_none()
    );
}
