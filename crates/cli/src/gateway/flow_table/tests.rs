use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kern::{Random, Time};

use super::super::client_quota::{OUTWARD_SHARE, PUBLISHED_SHARE};
use super::super::flow::{Flow, FlowEnds, Outlet};
use super::super::question::Question;
use super::{
    CLIENTS_LEAST, CLIENTS_MAX, FIRST_PORT, FlowTable, OUTWARD, OWN, OWN_MAX, OWN_V6, QUESTIONS,
};
use crate::sys::pktinfo::DatagramClient;

fn addr(n: u32) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 + n), 7))
}

fn ends(group: usize, n: u32) -> FlowEnds {
    let port = 1000 + group as u16;
    let (guest, remote) = match group {
        OWN_V6 => {
            let remote = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n));
            let guest = crate::addressing::Addressing6::DEFAULT.guest;
            (guest.into(), (remote, 7).into())
        }
        _ => (crate::addressing::Addressing::DEFAULT.guest.into(), addr(n)),
    };
    FlowEnds {
        guest: SocketAddr::new(guest, port),
        remote,
    }
}

/// One descriptor that all flows share: a table this large has thousands.
fn socket() -> std::os::fd::OwnedFd {
    let null = std::fs::File::open("/dev/null").expect("it is everywhere");
    null.into()
}

fn client(n: u32) -> DatagramClient {
    let (addr, local) = (addr(n), None);
    DatagramClient { addr, local }
}

fn outlet(table: &mut FlowTable, group: usize, n: u32) -> Outlet {
    match group {
        OWN | OWN_V6 => {
            let ends = ends(group, n);
            let peer = ends.remote;
            let held = table.shared_sockets.hold(&ends, peer, |_| Ok(socket()));
            let socket = held.expect("opened");
            Outlet::Shared { socket, peer }
        }
        QUESTIONS => Outlet::Resolver(Question {
            socket: socket(),
            resolver: addr(0),
            asked: None,
            others: 0,
            earlier: Vec::new(),
        }),
        // Behind the ports that are published.
        OUTWARD => Outlet::Loopback {
            socket: socket(),
            index: 1,
            client: addr(n),
        },
        port => Outlet::Inlet {
            index: port - FIRST_PORT,
            client: client(n),
        },
    }
}

/// Adds a flow as the gateway does; returns the number of the flow that was evicted for it.
fn add(table: &mut FlowTable, group: usize, n: u32) -> Option<u32> {
    let outlet = outlet(table, group, n);
    let ends = ends(group, n);
    let gone = table.make_room(&ends, &outlet);
    table.insert(Flow::new(ends, outlet, Time::ZERO));
    gone.map(|flow| match flow.ends.remote.ip() {
        IpAddr::V4(ip) => ip.to_bits() - 0x0a00_0000,
        IpAddr::V6(ip) => ip.to_bits() as u32,
    })
}

#[test]
fn a_flood_to_a_port_costs_only_its_own_clients() {
    // Breaks when clients of a published port evict the guest's flows, its questions, or another port's clients.
    let mut table = FlowTable::new(usize::MAX);
    table.add_port();
    table.add_port();
    let groups = [OWN, OWN_V6, QUESTIONS, FIRST_PORT];
    for group in groups {
        assert_eq!(add(&mut table, group, 1), None);
    }
    let quota = CLIENTS_MAX / 2;
    for n in 0..10 * quota as u32 {
        let gone = add(&mut table, FIRST_PORT + 1, n);
        assert_eq!(gone, n.checked_sub(quota as u32), "the oldest goes");
    }
    assert_eq!(table.len(), groups.len() + quota);
    for group in groups {
        assert!(table.between(&ends(group, 1)).is_some(), "{group}");
    }
    let client = client(1);
    assert!(table.of_client(0, client).is_some() && table.of_client(1, client).is_none());
}

#[test]
fn a_scan_over_one_version_of_ip_costs_the_other_nothing() {
    // Breaks when datagrams to all of an IPv6 network end the guest's flows over IPv4.
    let mut table = FlowTable::new(usize::MAX);
    assert_eq!(add(&mut table, OWN, 1), None);
    for n in 0..2 * OWN_MAX as u32 {
        let gone = add(&mut table, OWN_V6, n);
        assert_eq!(gone, n.checked_sub(OWN_MAX as u32), "the oldest goes");
    }
    assert_eq!(table.len(), 1 + OWN_MAX);
    assert!(table.between(&ends(OWN, 1)).is_some());
}

#[test]
fn a_flood_of_one_guest_costs_another_no_flow() {
    // Breaks when the flows of all guests have one age: the questions of a guest end before their answers come while
    // another one asks many; or when the lists of guests that come and go pile up.
    let mut table = FlowTable::new(usize::MAX);
    table.share_by_guest();
    table.groups[QUESTIONS].max = 8;
    let from = |guest: u8, n: u32| FlowEnds {
        guest: SocketAddr::from(([10, 0, 2, guest], 1000)),
        remote: addr(n),
    };
    let ask = |table: &mut FlowTable, guest, n| {
        let outlet = outlet(table, QUESTIONS, n);
        let gone = table.make_room(&from(guest, n), &outlet);
        table.insert(Flow::new(from(guest, n), outlet, Time::ZERO));
        gone.map(|flow| flow.ends)
    };
    assert!((0..3).all(|n| ask(&mut table, 101, n).is_none()));
    let flood: Vec<_> = (0..20).filter_map(|n| ask(&mut table, 100, n)).collect();
    assert_eq!(flood, (0..15).map(|n| from(100, n)).collect::<Vec<_>>());
    assert_eq!(ask(&mut table, 101, 3), Some(from(100, 15)));
    let own = ask(&mut table, 101, 4)
        .into_iter()
        .chain(ask(&mut table, 101, 5));
    let own: Vec<_> = own.map(|ends| ends.guest).collect();
    assert_eq!(own.len(), 2, "no guest has more than all");
    for guest in 0..=255 {
        ask(&mut table, guest, 6);
        table.clear();
    }
    assert_eq!(
        (table.len(), table.lists.len()),
        (0, 3),
        "as many as at a time"
    );
}

#[test]
fn many_ports_leave_each_its_clients() {
    // Breaks when the share of a port rounds down to 0.
    let mut table = FlowTable::new(usize::MAX);
    (0..100).for_each(|_| table.add_port());
    let made_room = (0..1000).filter(|n| add(&mut table, 50, *n).is_some());
    assert_eq!(made_room.count(), 1000 - CLIENTS_LEAST);
}

#[test]
fn it_does_what_lists_by_age_would() {
    // Breaks when a flow has the wrong place in the order by age, or none, or is found after its removal. The model has
    // one list for each group.
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let mut table = FlowTable::new(usize::MAX);
        table.add_port();
        table.add_port();
        let max = 8;
        table.groups.iter_mut().for_each(|group| group.max = max);
        let mut model = [const { VecDeque::new() }; 5];
        for step in 0..3000 {
            let group = random.below(5) as usize;
            let n = random.below(24) as u32;
            let list: &mut VecDeque<u32> = &mut model[group];
            let at = list.iter().position(|have| *have == n);
            let token = table.between(&ends(group, n));
            assert_eq!(token.is_some(), at.is_some(), "seed {seed}, step {step}");
            // A client that comes back after its flow ended finds none, and not the one that ended.
            let of_client = match group {
                FIRST_PORT => table.of_client(0, client(n)),
                OUTWARD => table.of_client(1, client(n)),
                _ => token,
            };
            assert_eq!(of_client, token, "seed {seed}, step {step}");
            match (token.zip(at), random.below(4)) {
                (Some((token, at)), 0) => {
                    list.remove(at);
                    assert!(table.remove(token).is_some() && table.remove(token).is_none());
                    assert!(table.used(token, Time::ZERO).is_none());
                }
                (Some((token, at)), _) => {
                    list.remove(at);
                    list.push_back(n);
                    let now = Time::from_secs(step);
                    let flow = table.used(token, now).expect("it is there");
                    assert_eq!((flow.ends, flow.last_used), (ends(group, n), now));
                }
                (None, _) => {
                    let goes = (list.len() == max).then(|| list.pop_front()).flatten();
                    list.push_back(n);
                    assert_eq!(add(&mut table, group, n), goes, "seed {seed}, step {step}");
                }
            }
            assert_eq!(table.len(), model.iter().map(VecDeque::len).sum::<usize>());
            let ends = [OWN, OWN_V6].map(|group| !model[group].is_empty());
            let open = ends.into_iter().filter(|is_used| *is_used).count();
            assert_eq!(table.shared_sockets.len(), open, "seed {seed}");
            let of_ports = [table.of_port(0), table.of_port(1)].map(|flows| flows.len());
            assert_eq!(of_ports, [model[FIRST_PORT].len(), model[OUTWARD].len()]);
        }
        table.clear();
        assert_eq!((table.len(), table.iter().count()), (0, 0));
        assert_eq!(table.shared_sockets.len(), 0);
        assert_eq!(add(&mut table, 0, 1), None);
    }
}

#[test]
fn quotas_fit_descriptors() {
    // Breaks when flows, of outward ports too, and questions, which may hold a descriptor each, and the clients of TCP
    // ports leave no descriptor in eight for the guest's own connections and the process.
    for descriptors in [256, 1024, 4096, 1 << 20] {
        let mut table = FlowTable::new(descriptors);
        (0..64).for_each(|_| table.add_port());
        for group in [OWN, OWN_V6, QUESTIONS, OUTWARD] {
            for n in 0..descriptors.min(2 * OWN_MAX) as u32 {
                add(&mut table, group, n);
            }
        }
        let clients = [PUBLISHED_SHARE, OUTWARD_SHARE].map(|share| descriptors / share);
        let held = table.len() + clients.iter().sum::<usize>();
        assert!(held <= descriptors - descriptors / 8, "{descriptors}");
    }
}
