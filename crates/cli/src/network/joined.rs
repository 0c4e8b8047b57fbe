//! A run's side of a network: it finds the network's process, or starts it, and stays connected while its guest lives.
//!
//! Invariants: the network's process learns of the end of this one by the end of the connection.
//! Locks: that of place, while a network begins.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::host::{self, NetworkPlan};
use super::message::{self, MessageVersion, NetworkMessage};
use super::place::NetworkPlace;
use super::shared_options;
use crate::addressing::{Addressing, Addressing6};
use crate::args::NetOpts;
use crate::args::Publish;
use crate::channel::{self, Channel, ChannelMessage};
use crate::errors::Error;
use crate::sys::fd;
use crate::sys::tap::Offloads;

/// The number of attempts to join, because a network may end just before a guest joins.
const TRIES: usize = 10;
/// The time that a network's process may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A place in a network.
pub(super) struct JoinedNetwork {
    channel: Channel,
    /// The network, with this guest's address.
    pub(super) network: Addressing,
    pub(super) network6: Option<Addressing6>,
    pub(super) mtu: u16,
}

impl JoinedNetwork {
    /// Joins the network called `name`, as a guest called `guest`.
    ///
    /// # Errors
    /// The network refuses, or cannot be begun.
    pub(super) fn join(
        name: &str,
        net: &NetOpts,
        guest: Option<&str>,
    ) -> Result<JoinedNetwork, Error> {
        let place = NetworkPlace::of(name).map_err(Error::io(
            "making a directory for the network in $XDG_RUNTIME_DIR or /tmp",
        ))?;
        let options = shared_options::given(net);
        for _ in 0..TRIES {
            let channel = connect(&place, name, net)?;
            let join = NetworkMessage::Join {
                pid: std::process::id(),
                name: guest.map(str::to_owned),
                options: options.clone(),
                version: MessageVersion::own(),
            };
            match ask(&channel, join, None, ANSWER_MAX) {
                Ok(Some(NetworkMessage::Joined {
                    network,
                    prefix6,
                    number,
                    mtu,
                    version,
                })) => {
                    if let Some(why) = message::other_version(&version, &MessageVersion::own()) {
                        return Err(Error::Usage(format!("network {name}: {why}")));
                    }
                    let network6 = prefix6.map(Addressing6::of);
                    return Ok(JoinedNetwork {
                        channel,
                        network,
                        network6: network6.map(|v6| v6.for_guest(number)),
                        mtu,
                    });
                }
                Ok(Some(NetworkMessage::Refused(why))) => {
                    return Err(Error::Usage(format!("network {name}: {why}")));
                }
                // Its last guest left a moment ago.
                Ok(None) => {}
                Ok(Some(_)) => return Err(failed(io::ErrorKind::InvalidData.into())),
                Err(e) => return Err(failed(e)),
            }
        }
        Err(failed(io::ErrorKind::TimedOut.into()))
    }

    /// Publishes a port of the guest by the host's `socket`.
    pub(super) fn publish(&self, publish: Publish, socket: OwnedFd) -> Result<(), Error> {
        self.done(NetworkMessage::Publish(publish), socket)
    }

    /// Hands over the TAP of the guest, which has its address of IPv6 or not.
    pub(super) fn attach(&self, offloads: Offloads, ip6: bool, tap: OwnedFd) -> Result<(), Error> {
        self.done(NetworkMessage::Attach { offloads, ip6 }, tap)
    }

    fn done(&self, message: NetworkMessage, fd: OwnedFd) -> Result<(), Error> {
        let answer = ask(&self.channel, message, Some(fd.as_fd()), ANSWER_MAX);
        match answer.map_err(failed)? {
            Some(NetworkMessage::Done) => Ok(()),
            Some(NetworkMessage::Refused(why)) => {
                Err(Error::io("joining the network")(io::Error::other(why)))
            }
            _ => Err(failed(io::ErrorKind::ConnectionReset.into())),
        }
    }

    /// Whether the network has ended.
    pub(super) fn is_gone(&self) -> io::Result<bool> {
        // It says nothing unasked.
        fd::is_ready(self.channel.as_fd())
    }
}

impl AsFd for JoinedNetwork {
    /// Readable when the network has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Asks, and waits for the answer, for `at_most`; nothing if the other end is closed.
pub(super) fn ask(
    channel: &Channel,
    message: NetworkMessage,
    fd: Option<BorrowedFd<'_>>,
    at_most: Duration,
) -> io::Result<Option<NetworkMessage>> {
    // One that is closed has no answer either.
    let _ = channel.send(&ChannelMessage::Network(message), fd);
    if fd::poll(&[channel.as_fd()], Some(at_most))? != [true] {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(match channel.recv()? {
        Some((ChannelMessage::Network(answer), _)) => Some(answer),
        _ => None,
    })
}

/// A connection to the network's process, which is started if there is none.
fn connect(place: &NetworkPlace, name: &str, net: &NetOpts) -> Result<Channel, Error> {
    let starting = |e| Error::io("starting the network's process")(e);
    let lock = place.lock().map_err(starting)?;
    if let Some(stream) = place.connect().map_err(starting)? {
        return Ok(Channel::from(OwnedFd::from(stream)));
    }
    let mut plan = Some(NetworkPlan {
        name: name.to_owned(),
        net: net.clone(),
    });
    // The copy that the fork makes has one owner, too.
    let mut lock = Some(lock);
    let forked = channel::fork(|starter| match (plan.take(), lock.take()) {
        (Some(plan), Some(lock)) => host::main(plan, place, lock, starter),
        _ => crate::errors::EXIT_OWN_FAILURE,
    });
    let (_, channel) = forked.map_err(starting)?;
    match channel.recv().map_err(starting)? {
        Some((ChannelMessage::Up, _)) => Ok(channel),
        // It has said why.
        _ => Err(starting(io::Error::other("it ended"))),
    }
}

fn failed(e: io::Error) -> Error {
    Error::io("speaking with the network's process")(e)
}
