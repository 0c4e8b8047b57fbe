//! Ports between the guest's loopback and the host's, and ports that mbuma finds itself.
//!
//! | direction | listens | leads to |
//! |---|---|---|
//! | inward (`-t auto`, `-u auto`) | the host, at all addresses | the guest, as a port that is published |
//! | outward (`-T`, `-U`) | the guest, at its loopback | the host's loopback |
//!
//! A port of one direction is never followed in the other: otherwise each listener would keep the other open, and one
//! that mbuma is about to close would take the place of the next server.
//!
//! Invariants: at most [`FOLLOWED_MAX`] ports are followed in each direction, and fewer where descriptors are few.
//! Locks: none.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::ports::Ports;
use super::requests::Requests;
use crate::args::{LoopbackOpts, OutwardRequest, Proto, PublishRange, PublishRequest};
use crate::channel::ChannelMessage;
use crate::errors::Error;
use crate::listening::{ListeningPorts, ProtoPort};
use crate::namespace_agent::NamespaceAgent;
use crate::ports::{OutwardPort, PublishedId};
use crate::say;
use crate::sys::limits;
use crate::sys::timerfd::Ticks;

/// How often the kernel's lists of sockets are read.
const PERIOD: Duration = Duration::from_secs(1);
/// Ports that are followed in one direction at most, because the guest could open any number.
const FOLLOWED_MAX: usize = 1024;
/// The same, of the descriptors that a process may have: each port has two sockets, so both directions have a quarter.
const FOLLOWED_SHARE: usize = 16;

/// What is open now.
pub(super) struct FollowedPorts {
    opts: LoopbackOpts,
    ticks: Ticks,
    /// `None` once it does not answer.
    agent: Option<NamespaceAgent>,
    host: ListeningPorts,
    inward: BTreeMap<PublishRequest, PublishedId>,
    outward: BTreeMap<OutwardRequest, PublishedId>,
    /// Ports in one direction at most.
    max: usize,
    /// The user was told that ports are left out.
    told: bool,
    /// The same of a gateway process that does not answer.
    told_of_wait: bool,
}

impl FollowedPorts {
    /// Opens the outward ports that the user gave by number. [`FollowedPorts::start`] hands them over.
    ///
    /// # Errors
    /// A port is in use, or the kernel's lists can't be read.
    pub(super) fn begin(
        opts: &LoopbackOpts,
        agent: NamespaceAgent,
        ports: &mut Ports,
    ) -> Result<(FollowedPorts, Vec<OutwardPort>), Error> {
        for range in &opts.follow_guest {
            ports.check(range)?;
        }
        let mut begun = Vec::new();
        for asked in &opts.outward {
            let doing = format!("opening port {} of the guest's loopback", asked.guest_port);
            let bound = outward_port(&agent, asked, ports);
            begun.push(bound.map_err(Error::io(&doing))?);
        }
        let followed = FollowedPorts {
            opts: opts.clone(),
            ticks: Ticks::every(PERIOD).map_err(Error::io("setting a timer"))?,
            agent: Some(agent),
            host: ListeningPorts::open().map_err(Error::io("listing the host's ports"))?,
            inward: BTreeMap::new(),
            outward: BTreeMap::new(),
            max: FOLLOWED_MAX.min(limits::descriptors() / FOLLOWED_SHARE),
            told: false,
            told_of_wait: false,
        };
        Ok((followed, begun))
    }

    /// Reads the lists for the first time, and hands over the ports that [`FollowedPorts::begin`] opened.
    pub(super) fn start(
        &mut self,
        begun: Vec<OutwardPort>,
        ports: &mut Ports,
        requests: &mut Requests,
    ) {
        self.look(ports, requests);
        for port in begun {
            hand_over(port, requests);
        }
    }

    /// Reads the lists again, if the interval is over.
    pub(super) fn tick(&mut self, ports: &mut Ports, requests: &mut Requests) {
        if self.ticks.take() {
            self.look(ports, requests);
        }
    }

    /// Nothing is looked at while the gateway process has not made the last changes: it holds sockets of ports that are
    /// closed here.
    fn look(&mut self, ports: &mut Ports, requests: &mut Requests) {
        if !requests.is_empty() {
            if requests.is_overdue() && !std::mem::replace(&mut self.told_of_wait, true) {
                say(
                    "the process that serves the guest does not answer: no port is opened or closed until it does",
                );
            }
            return;
        }
        self.told_of_wait = false;
        // The gateway process may have refused some.
        let open = ports.ids();
        self.inward.retain(|_, id| open.contains(id));
        self.outward.retain(|_, id| open.contains(id));
        // Those that this look closes listen until its end.
        let mut own = own_ports(ports);
        self.look_at_guest(ports, requests);
        own.extend(own_ports(ports));
        self.look_at_host(&own, ports, requests);
    }

    /// Publishes the ports on which the guest listens.
    fn look_at_guest(&mut self, ports: &mut Ports, requests: &mut Requests) {
        let (wanted, agent) = (&self.opts.follow_guest, self.agent.as_ref());
        let own = ports.outward().iter().map(|own| own.port);
        let own = own.map(|own| (own.proto, own.guest_port)).collect();
        let listening = agent.map(|agent| agent.guest().read(&protocols(wanted), &own));
        let Some(Ok(listening)) = listening else {
            return;
        };
        let wanted = leading_to(wanted, &listening);
        self.tell_of_limit(wanted.len());
        let (gone, new) = changes(&self.inward, &wanted, self.max);
        for port in gone {
            if let Some(id) = self.inward.remove(&port) {
                ports.remove(id, None, requests);
            }
        }
        for port in new {
            // A port that is in use, or that this user may not open, is left out until the next look.
            if let Ok(id) = ports.add(&port, None, requests) {
                self.inward.insert(port, id);
            }
        }
    }

    /// Opens the ports on which the host listens, except for mbuma's `own`.
    fn look_at_host(
        &mut self,
        own: &BTreeSet<ProtoPort>,
        ports: &mut Ports,
        requests: &mut Requests,
    ) {
        let wanted = &self.opts.follow_host;
        let Ok(listening) = self.host.read(&protocols(wanted), own) else {
            return;
        };
        let wanted = leading_to(wanted, &listening).into_iter();
        let mut wanted: BTreeSet<_> = wanted.map(|port| port.publish.into()).collect();
        // Where the user gave a port by number.
        let is_fixed = |asked: &OutwardRequest| {
            let all = self.opts.outward.iter();
            let mut given = all.map(|given| (given.proto, given.guest_port));
            given.any(|given| given == (asked.proto, asked.guest_port))
        };
        wanted.retain(|asked| !is_fixed(asked));
        self.tell_of_limit(wanted.len());
        let (gone, new) = changes(&self.outward, &wanted, self.max);
        for port in gone {
            if let Some(id) = self.outward.remove(&port) {
                ports.remove(id, None, requests);
            }
        }
        for asked in new {
            let Some(agent) = &self.agent else {
                return;
            };
            match outward_port(agent, &asked, ports) {
                Ok(port) => {
                    self.outward.insert(asked, port.spec.id);
                    hand_over(port, requests);
                }
                Err(e) if is_gone(&e) => return self.lose_agent(),
                // The port is in use there.
                Err(_) => {}
            }
        }
    }

    /// Whether the user gave this outward port by number.
    pub(super) fn is_given(&self, port: &OutwardRequest) -> bool {
        self.opts.outward.contains(port)
    }

    fn tell_of_limit(&mut self, wanted: usize) {
        if wanted > self.max && !std::mem::replace(&mut self.told, true) {
            say(&format!(
                "at most {} ports are followed in each direction: servers at other ports are not reached. Fewer open \
                 files allow fewer: `ulimit -Hn` shows the limit",
                self.max
            ));
        }
    }

    fn lose_agent(&mut self) {
        self.agent = None;
        say("the process in the guest's namespaces does not answer: no more ports are followed");
    }
}

impl AsFd for FollowedPorts {
    /// Readable when the interval is over.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ticks.as_fd()
    }
}

/// Lets the agent open a port of the guest's loopback.
fn outward_port(
    agent: &NamespaceAgent,
    asked: &OutwardRequest,
    ports: &mut Ports,
) -> io::Result<OutwardPort> {
    let sockets = agent.bind(asked)?;
    let spec = ports.add_outward(*asked);
    Ok(OutwardPort { spec, sockets })
}

fn hand_over(port: OutwardPort, requests: &mut Requests) {
    let message = ChannelMessage::OpenOutward(port.spec);
    requests.push(message, port.sockets, None);
}

/// The protocols of ranges.
fn protocols(ranges: &[PublishRange]) -> Vec<Proto> {
    ranges.iter().map(PublishRange::proto).collect()
}

/// The ports of these ranges that lead to a port with a listener.
fn leading_to(
    ranges: &[PublishRange],
    listening: &BTreeSet<ProtoPort>,
) -> BTreeSet<PublishRequest> {
    let leading = |range: &PublishRange| {
        let range = *range;
        let ports = listening
            .iter()
            .filter(move |(proto, _)| *proto == range.proto());
        ports.filter_map(move |(_, port)| range.leading_to(*port))
    };
    ranges.iter().flat_map(leading).collect()
}

/// The published ports, whose listeners the host's list shows.
fn own_ports(ports: &Ports) -> BTreeSet<ProtoPort> {
    let own = ports.list().iter().map(|port| port.publish);
    own.map(|own| (own.proto, own.host.port())).collect()
}

/// The ports of `open` that are not wanted any more, and as many new ones as there is room for.
fn changes<T: Ord + Copy>(
    open: &BTreeMap<T, PublishedId>,
    wanted: &BTreeSet<T>,
    max: usize,
) -> (Vec<T>, Vec<T>) {
    let gone = open.keys().filter(|port| !wanted.contains(port));
    let gone: Vec<_> = gone.copied().collect();
    let room = max.saturating_sub(open.len() - gone.len());
    let new = wanted.iter().filter(|port| !open.contains_key(port));
    let new = new.copied().take(room).collect();
    (gone, new)
}

/// Whether an error is about the agent, and not about the port.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionReset | TimedOut | UnexpectedEof
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_come_and_go_and_are_bounded() {
        // Breaks if a port stays open after its server, or a guest with many servers takes every descriptor.
        let open = BTreeMap::from([((Proto::Tcp, 80), 1), ((Proto::Tcp, 81), 2)]);
        let wanted = BTreeSet::from([(Proto::Tcp, 81), (Proto::Udp, 80)]);
        let expected = (vec![(Proto::Tcp, 80)], vec![(Proto::Udp, 80)]);
        assert_eq!(changes(&open, &wanted, FOLLOWED_MAX), expected);
        let many = (1..=u16::MAX).map(|port| (Proto::Tcp, port)).collect();
        let new = |max| changes(&open, &many, max).1.len();
        assert_eq!((new(FOLLOWED_MAX), new(1)), (FOLLOWED_MAX - open.len(), 0));
    }

    #[test]
    fn a_port_with_a_listener_is_found_in_its_range() {
        // Breaks when a port outside of the ranges is opened, one within is not, or it leads to another port or by
        // another protocol.
        let ranges = ["8000-8010:80-90", "*:1-99:1-99/udp"].map(|text| text.parse().expect(text));
        let listening = [79, 80, 90, 91].map(|port| (Proto::Tcp, port));
        let listening = BTreeSet::from(listening).into_iter();
        let listening = listening
            .chain([(Proto::Udp, 99), (Proto::Udp, 100)])
            .collect();
        let found = leading_to(&ranges, &listening);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["*:99:99/udp", "localhost:8000:80", "localhost:8010:90"]
        );
    }
}
