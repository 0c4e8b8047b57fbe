//! The process of a network: the monitor of a gateway that has several guests, in the background.
//!
//! ```text
//!   run (the first)    forks -------> leads a session, listens; its gateway process has the bridge
//!                      <-- Up -------
//!   run (each)         Join, Attach + TAP -->  tells the gateway process, which gives the TAP a port
//!                      ends ---------------->  has the port taken away
//! ```
//!
//! It ends with its last guest, or by a signal. What it reads comes from processes of the same user.
//!
//! Invariants: two guests have different addresses, and different names; a guest's connection lasts as long as the
//! guest.
//! Locks: that of place, at the end.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use mbuma::runtime::{Interest, PollEvents, Poller};

use super::addresses::{self, GUESTS_MAX};
use super::message::{self, GuestView, MessageVersion, NetworkMessage, NetworkView};
use super::place::{NetworkName, NetworkPlace};
use super::shared_options;
use crate::accept;
use crate::addressing::Addressing;
use crate::args::NetOpts;
use crate::channel::{Channel, ChannelMessage};
use crate::errors::{Error, with_remedy};
use crate::guest::{Guest, GuestEnd, GuestLink};
use crate::guests::{GuestChange, GuestId, GuestSpec, JoinedGuest, NetworkRequest};
use crate::lifecycle::{GuestState, Lifecycle};
use crate::monitor;
use crate::netstat::instances;
use crate::say;
use crate::signals::SignalFd;
use crate::sys::fd::{self, LetGo};
use crate::sys::process;
use crate::sys::tap::Offloads;

/// Connections at most, those of `mbuma network` included.
const CONNECTIONS_MAX: usize = GUESTS_MAX + 16;
/// Its name in `ps`.
const NAME: &CStr = c"mbuma-network";
/// The interface's name in captures and figures.
const IFNAME: &str = "bridge0";
/// The listener's number in the set; connections count from the next one on.
const LISTENER: u64 = 0;

/// The options that all guests of a network share.
pub(super) struct NetworkPlan {
    pub(super) name: String,
    pub(super) net: NetOpts,
}

/// The process, from the fork to its exit code. `starter` is the first guest's connection; `lock` is the network's.
pub(super) fn main(plan: NetworkPlan, place: &NetworkPlace, lock: File, starter: Channel) -> u8 {
    let served = serve(plan, place, lock, starter);
    served.unwrap_or_else(|e| {
        say(&e.to_string());
        e.exit_code()
    })
}

fn serve(
    plan: NetworkPlan,
    place: &NetworkPlace,
    lock: File,
    starter: Channel,
) -> Result<u8, Error> {
    process::lead_own_session().map_err(Error::io("leading a session"))?;
    // It is no error if the name can't be set.
    let _ = process::set_name(NAME);
    let (signals, _) = SignalFd::open().map_err(Error::io("taking over the signals"))?;
    let net = NetOpts {
        detaches: Some(LetGo::All),
        network: true,
        publish: Vec::new(),
        workers: 1,
        ..plan.net.clone()
    };
    let guest = Guest {
        link: GuestLink::Network,
        offloads: Offloads::default(),
        loopback: false,
        is_owners: true,
        mtu: net.mtu(),
        ends: GuestEnd::new(IFNAME, [0; 6], &net, true),
    };
    let listening = place.listen().map_err(Error::io("listening for guests"))?;
    // The starter holds it until we are up.
    drop(lock);
    let host = NetworkHost::new(plan, signals, listening, starter);
    let mut host = host.map_err(Error::io("watching for guests"))?;
    monitor::serve(guest, &net, &mut host)
}

/// The network, as its process knows it.
struct NetworkHost {
    plan: NetworkPlan,
    signals: SignalFd,
    /// The listener and all connections, by number.
    set: Poller,
    events: PollEvents,
    /// Until the last guest has left.
    listening: Option<(NetworkName, UnixListener)>,
    connections: BTreeMap<u64, Connected>,
    last: u64,
    last_addr: Option<Ipv4Addr>,
    requests: Vec<NetworkRequest>,
    /// The first guest's connection, until the network is up.
    is_starting: bool,
    /// `mbuma network rm` has asked for the end.
    is_removed: bool,
}

/// A connection.
struct Connected {
    channel: Channel,
    /// The guest whose it is.
    guest: Option<GuestView>,
    id: GuestId,
    is_attached: bool,
}

/// The answer to a message.
enum HostAnswer {
    Now(NetworkMessage),
    /// That of the gateway process.
    Later,
}

impl NetworkHost {
    fn new(
        plan: NetworkPlan,
        signals: SignalFd,
        listening: (NetworkName, UnixListener),
        starter: Channel,
    ) -> io::Result<NetworkHost> {
        let set = Poller::new()?;
        accept::watch(&set, &listening.1, LISTENER)?;
        let mut host = NetworkHost {
            plan,
            signals,
            set,
            events: PollEvents::new(),
            listening: Some(listening),
            connections: BTreeMap::new(),
            last: LISTENER,
            last_addr: None,
            requests: Vec::new(),
            is_starting: true,
            is_removed: false,
        };
        host.connect(starter)?;
        Ok(host)
    }

    fn connect(&mut self, channel: Channel) -> io::Result<()> {
        self.last += 1;
        self.set.add(channel.as_fd(), self.last, Interest::Read)?;
        let connected = Connected {
            channel,
            guest: None,
            id: self.last as GuestId,
            is_attached: false,
        };
        self.connections.insert(self.last, connected);
        Ok(())
    }

    fn accept(&mut self) {
        let Some((_, listener)) = &self.listening else {
            return;
        };
        let mut accepted = Vec::new();
        accept::some(&self.set, listener, LISTENER, usize::MAX, |stream| {
            accepted.push(stream)
        });
        for stream in accepted {
            // One too many finds its connection closed.
            if self.connections.len() < CONNECTIONS_MAX {
                let _ = self.connect(Channel::from(OwnedFd::from(stream)));
            }
        }
    }

    /// Handles all events that there are.
    fn handle_events(&mut self) -> io::Result<()> {
        loop {
            self.set.wait(&mut self.events, Some(Duration::ZERO))?;
            let numbers = self.events.iter();
            let numbers: Vec<u64> = numbers.map(|(number, _)| number).collect();
            if numbers.is_empty() {
                return Ok(());
            }
            for number in numbers {
                match number {
                    LISTENER => self.accept(),
                    number => self.hear(number),
                }
            }
            // A connection that has ended left a descriptor for a client that waits.
            self.accept();
        }
    }

    /// Receives one message, and answers it.
    fn hear(&mut self, number: u64) {
        let Some(connected) = self.connections.get(&number) else {
            return;
        };
        let answer = match connected.channel.recv_all() {
            Ok(Some((ChannelMessage::Network(message), fds))) => self.answer(number, message, fds),
            // The guest ends with it.
            Err(e) if e.raw_os_error() == Some(libc::EMFILE) => {
                Some(HostAnswer::Now(NetworkMessage::Refused(with_remedy(&e))))
            }
            _ => None,
        };
        let goes_on = answer.is_some_and(|answer| match answer {
            HostAnswer::Now(message) => self.tell(number, message).is_ok(),
            HostAnswer::Later => true,
        });
        if !goes_on {
            self.part(number);
        }
    }

    fn tell(&self, number: u64, message: NetworkMessage) -> io::Result<()> {
        let connected = self.connections.get(&number);
        let connected = connected.ok_or(io::ErrorKind::NotConnected)?;
        connected
            .channel
            .send(&ChannelMessage::Network(message), None)
    }

    /// The answer to a message; `None` if such a message must not come.
    fn answer(
        &mut self,
        number: u64,
        message: NetworkMessage,
        fds: Vec<OwnedFd>,
    ) -> Option<HostAnswer> {
        let fd = fds.into_iter().next();
        Some(HostAnswer::Now(match message {
            NetworkMessage::Join {
                pid,
                name,
                options,
                version,
            } => {
                let joined = match message::other_version(&MessageVersion::own(), &version) {
                    Some(why) => Err(why),
                    None => self.join(number, pid, name, options),
                };
                joined.unwrap_or_else(NetworkMessage::Refused)
            }
            NetworkMessage::Publish(publish) => {
                let Connected { id, guest, .. } = self.connections.get(&number)?;
                let request = NetworkRequest::Publish(*id, publish, guest.as_ref()?.addr, fd?);
                self.requests.push(request);
                return Some(HostAnswer::Later);
            }
            NetworkMessage::Attach { offloads, ip6 } => {
                self.attach(number, offloads, ip6, fd?)?;
                return Some(HostAnswer::Later);
            }
            NetworkMessage::Inspect => NetworkMessage::View(self.view()),
            NetworkMessage::Remove { force } => match self.guests().count() {
                0 => NetworkMessage::Done,
                _ if force => {
                    self.is_removed = true;
                    NetworkMessage::Done
                }
                1 => NetworkMessage::Refused(
                    "it has a guest, and ends with that guest; --force ends both".to_owned(),
                ),
                count => NetworkMessage::Refused(format!(
                    "it has {count} guests, and ends with the last one; --force ends it and them"
                )),
            },
            _ => return None,
        }))
    }

    fn join(
        &mut self,
        number: u64,
        pid: u32,
        name: Option<String>,
        options: Option<String>,
    ) -> Result<NetworkMessage, String> {
        let ours = shared_options::text(&self.plan.net);
        let other = options.map(|options| shared_options::differences(&ours, &options));
        if let Some(other) = other.filter(|other| !other.is_empty()) {
            return Err(format!(
                "its first guest has other values of {}: give the same ones, or no option that its guests share",
                other.join(", ")
            ));
        }
        if let Some(name) = &name
            && self.guests().any(|guest| guest.is_called(name))
        {
            return Err(format!("a guest called {name} is there already"));
        }
        let addr = self.free_addr().ok_or("it is full")?;
        let network = Addressing {
            guest: addr,
            ..self.plan.net.cidr
        };
        let behind = addr.to_bits() - self.plan.net.cidr.guest.to_bits();
        let network6 = self.plan.net.v6().copied();
        let addr6 = network6.map(|v6| v6.for_guest(behind).guest);
        let connected = self.connections.get_mut(&number);
        let connected = connected.filter(|c| c.guest.is_none());
        let connected = connected.ok_or("it joins twice")?;
        connected.guest = Some(GuestView {
            addr,
            addr6,
            name,
            pid,
        });
        self.last_addr = Some(addr);
        let mtu = self.plan.net.mtu();
        Ok(NetworkMessage::Joined {
            network,
            prefix6: network6.map(|v6| v6.prefix()),
            number: behind,
            mtu,
            version: MessageVersion::own(),
        })
    }

    fn free_addr(&self) -> Option<Ipv4Addr> {
        addresses::next_free(&self.plan.net.cidr, self.last_addr, |addr| {
            self.guests().any(|guest| guest.addr == addr)
        })
    }

    fn attach(&mut self, number: u64, offloads: Offloads, ip6: bool, tap: OwnedFd) -> Option<()> {
        let connected = self.connections.get_mut(&number)?;
        let is_new = !connected.is_attached;
        let guest = connected.guest.as_mut().filter(|_| is_new)?;
        guest.addr6 = guest.addr6.filter(|_| ip6);
        let spec = GuestSpec {
            id: connected.id,
            addr: guest.addr,
            addr6: guest.addr6,
            name: guest.name.clone(),
            offloads,
        };
        connected.is_attached = true;
        let joined = GuestChange::Joined(JoinedGuest { spec, tap });
        self.requests.push(NetworkRequest::Guest(joined));
        Some(())
    }

    /// A connection has ended, and its guest with it.
    fn part(&mut self, number: u64) {
        let Some(gone) = self.connections.remove(&number) else {
            return;
        };
        if let Some(guest) = gone.guest {
            self.requests.push(NetworkRequest::Unpublish(guest.addr));
        }
        if gone.is_attached {
            let left = GuestChange::Left(gone.id);
            self.requests.push(NetworkRequest::Guest(left));
        }
    }

    fn guests(&self) -> impl Iterator<Item = &GuestView> {
        self.connections.values().filter_map(|c| c.guest.as_ref())
    }

    fn view(&self) -> NetworkView {
        NetworkView {
            name: self.plan.name.clone(),
            pid: instances::own_pid(),
            gateway: self.plan.net.cidr.gateway,
            prefix_len: self.plan.net.cidr.prefix_len,
            mtu: self.plan.net.mtu(),
            guests: self.guests().cloned().collect(),
        }
    }
}

impl Lifecycle for NetworkHost {
    fn up(&mut self) -> Result<(), Error> {
        fd::let_go(LetGo::All).map_err(Error::io("letting go of the caller's files"))?;
        // If the starter has ended, there is nothing to serve.
        if let Some(starter) = self.connections.values().next() {
            let _ = starter.channel.send(&ChannelMessage::Up, None);
        }
        Ok(())
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.signals.as_fd(), self.set.as_fd()]
    }

    fn check(&mut self) -> Result<GuestState, Error> {
        self.is_removed |= self.signals.take_in()?;
        self.handle_events()
            .map_err(Error::io("waiting for guests"))?;
        if self.is_removed {
            return Ok(GuestState::StopRequested);
        }
        self.is_starting &= self.guests().next().is_none() && !self.connections.is_empty();
        if self.is_starting || self.guests().next().is_some() {
            return Ok(GuestState::Running);
        }
        // A run that starts now begins the network again.
        self.listening = None;
        Ok(GuestState::Ended)
    }

    fn take_requests(&mut self) -> Vec<NetworkRequest> {
        std::mem::take(&mut self.requests)
    }

    fn tell_guest(&mut self, guest: GuestId, refused: Option<String>) {
        let answer = refused.map_or(NetworkMessage::Done, NetworkMessage::Refused);
        // The end of a guest is noticed by its connection.
        let _ = self.tell(guest.into(), answer);
    }
}
