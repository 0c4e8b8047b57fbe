//! Ports between the guest's loopback and the host's, and ports that mbuma finds itself.
//!
//! | direction | listens | leads to |
//! |---|---|---|
//! | inward (`-t auto`, `-u auto`) | the host, at all addresses | the guest, as a port that is published |
//! | outward (`-T`, `-U`) | the guest, at its loopback | the host's loopback |
//!
//! A port of one direction is never followed in the other: otherwise each listener would keep the other open.
//!
//! Invariants: at most [`FOLLOWED_MAX`] ports are followed in each direction, and fewer where descriptors are few.
//! Locks: none.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::ports::Ports;
use super::requests::Requests;
use crate::args::{LoopbackOpts, OutwardRequest, Proto, Publish, PublishRequest};
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
    /// Outward ports that the user gave by number.
    fixed: BTreeSet<ProtoPort>,
    inward: BTreeMap<ProtoPort, PublishedId>,
    outward: BTreeMap<ProtoPort, PublishedId>,
    /// Ports in one direction at most.
    max: usize,
    /// The user was told that ports are left out.
    told: bool,
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
        let mut begun = Vec::new();
        for asked in &opts.outward {
            let doing = format!("opening port {} of the guest's loopback", asked.guest_port);
            let bound = outward_port(&agent, asked, ports);
            begun.push(bound.map_err(Error::io(&doing))?);
        }
        let fixed = opts.outward.iter();
        let followed = FollowedPorts {
            opts: opts.clone(),
            ticks: Ticks::every(PERIOD).map_err(Error::io("setting a timer"))?,
            agent: Some(agent),
            host: ListeningPorts::open().map_err(Error::io("listing the host's ports"))?,
            fixed: fixed.map(|asked| (asked.proto, asked.guest_port)).collect(),
            inward: BTreeMap::new(),
            outward: BTreeMap::new(),
            max: FOLLOWED_MAX.min(limits::descriptors() / FOLLOWED_SHARE),
            told: false,
        };
        Ok((followed, begun))
    }

    /// Hands over the ports that [`FollowedPorts::begin`] opened, and reads the lists for the first time.
    pub(super) fn start(
        &mut self,
        begun: Vec<OutwardPort>,
        ports: &mut Ports,
        requests: &mut Requests,
    ) {
        for port in begun {
            hand_over(port, requests);
        }
        self.look(ports, requests);
    }

    /// Reads the lists again, if the interval is over.
    pub(super) fn tick(&mut self, ports: &mut Ports, requests: &mut Requests) {
        if self.ticks.take() {
            self.look(ports, requests);
        }
    }

    fn look(&mut self, ports: &mut Ports, requests: &mut Requests) {
        // The gateway process may have refused some.
        let open = ports.ids();
        self.inward.retain(|_, id| open.contains(id));
        self.outward.retain(|_, id| open.contains(id));
        self.look_at_guest(ports, requests);
        self.look_at_host(ports, requests);
    }

    /// Publishes the ports on which the guest listens.
    fn look_at_guest(&mut self, ports: &mut Ports, requests: &mut Requests) {
        let listening = self.agent.as_ref();
        let listening = listening.map(|agent| agent.guest().read(&self.opts.follow_guest));
        let Some(Ok(mut listening)) = listening else {
            return;
        };
        listening.retain(|port| !self.fixed.contains(port) && !self.outward.contains_key(port));
        self.tell_of_limit(&listening);
        let (gone, new) = changes(&self.inward, &listening, self.max);
        for port in gone {
            if let Some(id) = self.inward.remove(&port) {
                ports.remove(id, None, requests);
            }
        }
        for port in new {
            // A port that is in use, or that this user may not open, is left out until the next look.
            if let Ok(id) = ports.add(&published(port), None, None, requests) {
                self.inward.insert(port, id);
            }
        }
    }

    /// Opens the ports on which the host listens.
    fn look_at_host(&mut self, ports: &mut Ports, requests: &mut Requests) {
        let Ok(mut listening) = self.host.read(&self.opts.follow_host) else {
            return;
        };
        let own = ports.list().iter().map(|port| port.publish);
        let own = with_twins(own.map(|own| (own.proto, own.host.port())));
        listening.retain(|port| !own.contains(port) && !self.fixed.contains(port));
        self.tell_of_limit(&listening);
        let (gone, new) = changes(&self.outward, &listening, self.max);
        for port in gone {
            if let Some(id) = self.outward.remove(&port) {
                ports.remove(id, None, requests);
            }
        }
        for (proto, number) in new {
            let asked = OutwardRequest {
                proto,
                guest_port: number,
                host_port: number,
            };
            let Some(agent) = &self.agent else {
                return;
            };
            match outward_port(agent, &asked, ports) {
                Ok(port) => {
                    self.outward.insert((proto, number), port.spec.id);
                    hand_over(port, requests);
                }
                Err(e) if is_gone(&e) => return self.lose_agent(),
                // The port is in use there.
                Err(_) => {}
            }
        }
    }

    fn tell_of_limit(&mut self, listening: &BTreeSet<ProtoPort>) {
        if listening.len() > self.max && !std::mem::replace(&mut self.told, true) {
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

/// Ports with a listener of ours. A TCP port counts for UDP too, as in [`ListeningPorts::read`]: otherwise our own
/// listener would be followed by that.
fn with_twins(own: impl Iterator<Item = ProtoPort>) -> BTreeSet<ProtoPort> {
    own.flat_map(|(proto, port)| [(proto, port), (Proto::Udp, port)])
        .collect()
}

/// The ports of `open` on which no program listens any more, and as many new ones as there is room for.
fn changes(
    open: &BTreeMap<ProtoPort, PublishedId>,
    listening: &BTreeSet<ProtoPort>,
    max: usize,
) -> (Vec<ProtoPort>, Vec<ProtoPort>) {
    let gone = open.keys().filter(|port| !listening.contains(port));
    let gone: Vec<_> = gone.copied().collect();
    let room = max.saturating_sub(open.len() - gone.len());
    let new = listening.iter().filter(|port| !open.contains_key(port));
    let new = new.copied().take(room).collect();
    (gone, new)
}

/// The port of all the host's addresses that leads to this one of the guest.
fn published((proto, port): ProtoPort) -> PublishRequest {
    let publish = Publish {
        host: (Ipv4Addr::UNSPECIFIED, port).into(),
        guest_port: port,
        proto,
        interface: None,
    };
    PublishRequest {
        publish,
        both: true,
    }
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
        let listening = BTreeSet::from([(Proto::Tcp, 81), (Proto::Udp, 80)]);
        let expected = (vec![(Proto::Tcp, 80)], vec![(Proto::Udp, 80)]);
        assert_eq!(changes(&open, &listening, FOLLOWED_MAX), expected);
        let many = (1..=u16::MAX).map(|port| (Proto::Tcp, port)).collect();
        let new = |max| changes(&open, &many, max).1.len();
        assert_eq!((new(FOLLOWED_MAX), new(1)), (FOLLOWED_MAX - open.len(), 0));
    }

    #[test]
    fn a_tcp_port_of_ours_is_followed_by_no_protocol() {
        // Breaks if the list of the host's ports, which has each TCP port for UDP too, leads to a UDP port that takes
        // the place of one of the guest's own.
        let own = with_twins([(Proto::Tcp, 80), (Proto::Udp, 53)].into_iter());
        let expected = [(Proto::Tcp, 80), (Proto::Udp, 53), (Proto::Udp, 80)];
        assert_eq!(own, BTreeSet::from(expected));
    }
}
