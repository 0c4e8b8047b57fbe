//! Tests of the filters of sockets and memberships against a model of sets, and of their bounds.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Of each version of IP.
fn group(n: u8) -> IpAddr {
    match n % 2 {
        0 => IpAddr::from([0xff0e, 0, 0, 0, 0, 0, 0, n.into()]),
        _ => IpAddr::from([239, 1, 2, n]),
    }
}

fn source(n: u16) -> IpAddr {
    IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n])
}

const GROUPS: u8 = 2;
const SOCKETS: usize = 3;
const SOURCES: u16 = 4;

/// A socket's state in a group: whether its list is of senders that it takes, and the list.
type State = (bool, BTreeSet<u16>);
/// The sockets that are in a group.
type Model = BTreeMap<(u8, usize), State>;

/// RFC 3678 section 4.1.3, call by call.
fn step(model: &mut Model, key: (u8, usize), call: u8, n: u16) -> Result<(), GroupError> {
    use GroupError::*;
    let state = model.get(&key).cloned();
    let next = match (call, state) {
        (0, None) => Some((false, BTreeSet::new())),
        (0, Some(_)) => return Err(AlreadyMember),
        (1, Some(_)) => None,
        (4, None) => Some((true, BTreeSet::from([n]))),
        (_, None) => return Err(NotMember),
        (2 | 3, Some((true, _))) | (4 | 5, Some((false, _))) => return Err(OtherMode),
        (2 | 4, Some((mode, mut list))) => {
            if !list.insert(n) {
                return Err(AlreadyMember);
            }
            Some((mode, list))
        }
        (_, Some((mode, mut list))) => {
            if !list.remove(&n) {
                return Err(NotMember);
            }
            Some((mode, list)).filter(|(mode, list)| !mode || !list.is_empty())
        }
    };
    match next {
        Some(next) => drop(model.insert(key, next)),
        None => drop(model.remove(&key)),
    }
    Ok(())
}

fn change(call: u8, n: u16) -> FilterChange {
    match call {
        0 => FilterChange::Join,
        1 => FilterChange::Leave,
        2 => FilterChange::Block(source(n)),
        3 => FilterChange::Unblock(source(n)),
        4 => FilterChange::JoinSource(source(n)),
        _ => FilterChange::LeaveSource(source(n)),
    }
}

/// The filter of an interface by the two rules of RFC 9777 section 4.2, as a mode and a list.
fn merged(model: &Model, group: u8) -> Option<State> {
    let members: Vec<_> = model
        .iter()
        .filter(|(key, _)| key.0 == group)
        .map(|(_, state)| state)
        .collect();
    let of_mode = |mode| members.iter().filter(move |state| state.0 == mode);
    let included: BTreeSet<_> = of_mode(true).flat_map(|state| state.1.clone()).collect();
    let excluded = of_mode(false)
        .map(|state| state.1.clone())
        .reduce(|a, b| &a & &b);
    match excluded {
        Some(excluded) => Some((false, &excluded - &included)),
        None if included.is_empty() => None,
        None => Some((true, included)),
    }
}

proptest! {
    /// Breaks if a socket gets what its own filter does not take, or not what it takes; if an interface's filter is not
    /// that of RFC 9777 section 4.2; if a call has another error than RFC 3678 section 4.1.3 says, or changes something
    /// then; or if routers are not told of a change, or of none.
    #[test]
    fn m1_sockets_filters_are_merged_as_the_rfc_says(
        calls in vec((0..GROUPS, 0..SOCKETS, 0..7_u8, 0..SOURCES), 0..60),
        shared in proptest::option::of((0..60_usize, any::<bool>(), 0..SOURCES)),
    ) {
        let groups = Groups::new();
        let mut model = Model::new();
        // A membership counts as a socket that is none of these; it is for the sockets that are not in the group.
        let mut membership = None;
        for (at, (g, s, call, n)) in calls.into_iter().enumerate() {
            if let Some((begin, is_include, n)) = shared && begin == at {
                let list = [source(n)];
                let filter = if is_include { SourceFilter::include(list) } else { SourceFilter::exclude(list) };
                groups.join(group(0), filter).unwrap();
                membership = Some((is_include, BTreeSet::from([n])));
                model.insert((0, SOCKETS), membership.clone().unwrap());
            }
            let before: Vec<_> = (0..GROUPS).map(|g| merged(&model, g)).collect();
            let (said, expected) = match call {
                6 => {
                    model.retain(|key, _| key.1 != s);
                    (Ok(groups.leave_all(SocketId(s))), Ok(()))
                }
                _ => (
                    groups.change_socket(group(g), SocketId(s), change(call, n)),
                    step(&mut model, (g, s), call, n),
                ),
            };
            let after: Vec<_> = (0..GROUPS).map(|g| merged(&model, g)).collect();
            prop_assert_eq!(said, expected.map(|()| before != after));
            for g in 0..GROUPS {
                let filter = groups.list().into_iter().find(|(known, _)| *known == group(g));
                prop_assert_eq!(groups.has(group(g)), after[usize::from(g)].is_some());
                let expected = after[usize::from(g)].as_ref().map(|(is_include, list)| {
                    let list = list.iter().copied().map(source);
                    if *is_include { SourceFilter::include(list) } else { SourceFilter::exclude(list) }
                });
                prop_assert_eq!(filter.map(|(_, filter)| filter), expected);
                for (s, n) in (0..SOCKETS).flat_map(|s| (0..SOURCES).map(move |n| (s, n))) {
                    let takes = |(is_include, list): &State| list.contains(&n) == *is_include;
                    let shared = membership.as_ref().filter(|_| g == 0).is_some_and(takes);
                    let expected = model.get(&(g, s)).map_or(shared.then_some(true), |state| Some(takes(state)));
                    prop_assert_eq!(groups.delivers(group(g), source(n), SocketId(s)), expected);
                }
            }
        }
    }
}

#[test]
fn m1_a_socket_can_not_make_a_list_grow_without_bound() {
    // Breaks if a program takes all memory, or all of an interface's groups, by a loop of joins.
    let groups = Groups::new();
    let (one, other) = (SocketId(1), SocketId(2));
    let join =
        |socket, n| groups.change_socket(group(0), socket, FilterChange::JoinSource(source(n)));
    for n in 0..SOURCES_MAX as u16 {
        join(one, n).unwrap();
    }
    assert_eq!(join(one, 999), Err(GroupError::ManySources));
    assert_eq!(
        join(other, 999),
        Err(GroupError::ManySources),
        "of all members together"
    );
    assert_eq!(join(other, 1), Ok(false), "it is in the list");
    for n in 1..SOCKET_GROUPS_MAX as u8 {
        groups
            .change_socket(group(n), one, FilterChange::Join)
            .unwrap();
    }
    let full = groups.change_socket(group(255), one, FilterChange::Join);
    assert_eq!(full, Err(GroupError::Full));
    let listed = groups.change_socket(group(1), one, FilterChange::Block(source(1)));
    assert_eq!(listed, Ok(true), "a group that it is in takes no more room");
    groups
        .change_socket(group(255), other, FilterChange::Join)
        .unwrap();
    assert!(groups.leave_all(one));
    let left: Vec<_> = groups.list().into_iter().map(|(group, _)| group).collect();
    assert_eq!(left, [group(0), group(255)]);
}

#[test]
fn m1_the_groups_of_an_interface_are_bounded() {
    // Breaks if a program with many sockets makes each packet to a group a search in a list without bound.
    let groups = Groups::new();
    let join = |n: usize| {
        let socket = SocketId(n / SOCKET_GROUPS_MAX);
        let group = std::net::Ipv4Addr::from_bits(0xef01_0000 + n as u32);
        groups.change_socket(group.into(), socket, FilterChange::Join)
    };
    assert!((0..GROUPS_MAX).all(|n| join(n).is_ok()));
    assert_eq!(join(GROUPS_MAX), Err(GroupError::Full));
}
